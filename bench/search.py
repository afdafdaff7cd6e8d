"""`python -m bench search`: what a search costs by itself, and what it finds at equal trials.

No service around it: strategy and worker's Measurer in turns, so that two settings, or two commits, differ in
the search alone. CPU seconds of the strategy are its own; the device measures meanwhile nothing else.
"""

import argparse
import json
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bench import report, suite
from bench.measuring import Measuring, measuring
from bench.suite import Workload
from checks.space import named_space
from db.states import Outcome
from tuner.cost_model.for_target import cost_model
from tuner.search.evolutionary import EvolutionarySearch
from tuner.search.known import Known
from tuner.search.options import SearchOptions
from tuner.search.random import RandomSearch
from tuner.search.setup import open_setup
from tuner.search.strategy import Candidate, Result, SearchStrategy
from workers.messages import MeasurePolicy, TrialOutcome

_MARKS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What a search found, trial by trial."""

    #: Seconds of the best so far; None until something ran.
    best: tuple[float | None, ...]
    #: CPU of the strategy alone.
    search_secs: float
    not_ok: int
    #: Of the best; None where nothing ran.
    trace: str | None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workloads", default="GMM-512,C2D-a", help="names")
    parser.add_argument("--strategies", default="evolutionary,random")
    parser.add_argument("--trials", type=int, default=96)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--target", type=json.loads, help="as JSON; the local CPU's by default")
    parser.add_argument("--space", choices=("stock", "tilefarm"), default="tilefarm")
    parser.add_argument("--options", type=json.loads, default={}, help="of the search, as JSON")


def main(arguments: argparse.Namespace) -> int:
    target = arguments.target or _local_target()
    options = SearchOptions(**arguments.options)
    rows = []
    for name in arguments.workloads.split(","):
        workload = suite.workload(name)
        for seed in range(arguments.seeds):
            for strategy in arguments.strategies.split(","):
                opened = _open(strategy, workload, target, seed, options, space=arguments.space)
                with measuring(target) as device:
                    played = play(
                        device, workload, opened, batch_size=options.batch_size, trials=arguments.trials
                    )
                rows.append([name, strategy, str(seed), *_cells(played, arguments.trials)])
                print(report.markdown_table(_head(arguments.trials), rows[-1:]), flush=True)
    print("\n".join(report.markdown_table(_head(arguments.trials), rows)))
    return 0


def _local_target() -> dict[str, Any]:
    from bench.farm import running_farm

    with running_farm() as farm:
        return dict(farm.target)


def _head(trials: int) -> list[str]:
    marks = [f"best after {mark}, µs" for mark in _marks(trials)]
    return ["workload", "strategy", "seed", *marks, "search, CPU s", "not ok"]


def _marks(trials: int) -> list[int]:
    return [trials * part // _MARKS for part in range(1, _MARKS + 1)]


def _cells(played: Played, trials: int) -> list[str]:
    best = played.best
    reached = [best[min(mark, len(best)) - 1] for mark in _marks(trials)]
    return [
        *("-" if secs is None else f"{1e6 * secs:.1f}" for secs in reached),
        f"{played.search_secs:.1f}",
        str(played.not_ok),
    ]


def play(
    device: Measuring, workload: Workload, search: SearchStrategy, *, batch_size: int, trials: int
) -> Played:
    """A search against a device, with nothing between them."""
    best: list[float | None] = []
    search_secs, not_ok, round_ = 0.0, 0, 0
    found: tuple[float, str] | None = None
    while len(best) < trials:
        began = time.process_time()
        batch = search.suggest(min(batch_size, trials - len(best)), round_=round_).candidates
        search_secs += time.process_time() - began
        if not batch:
            break
        outcomes = device.outcomes(workload.module, [each.trace for each in batch], MeasurePolicy())
        results = [result_of(*pair, round_=round_) for pair in zip(batch, outcomes, strict=True)]
        began = time.process_time()
        search.update(results)
        search_secs += time.process_time() - began
        for candidate, outcome, result in zip(batch, outcomes, results, strict=True):
            not_ok += outcome.outcome != Outcome.OK
            if outcome.outcome == Outcome.OK and result.latency_secs is not None:
                found = min(filter(None, (found, (result.latency_secs, candidate.trace))))
            best.append(found[0] if found else None)
        round_ += 1
    return Played(best=tuple(best), search_secs=search_secs, not_ok=not_ok, trace=found[1] if found else None)


def _open(
    strategy: str,
    workload: Workload,
    target: Mapping[str, Any],
    seed: int,
    options: SearchOptions,
    *,
    space: str,
) -> SearchStrategy:
    rules, _ = named_space(space)
    setup = open_setup(module=workload.module, target=target, space=rules, seed=seed, options=options)
    if strategy == "random":
        return RandomSearch(setup, Known())
    return EvolutionarySearch(setup, Known(), cost_model(setup.target))


def result_of(candidate: Candidate, outcome: TrialOutcome, *, round_: int) -> Result:
    """As the tuner tells a search what a worker answered."""
    timed = outcome.outcome in (Outcome.OK, Outcome.CUT_OFF) and outcome.run_secs
    return Result(
        trace_hash=candidate.trace_hash,
        program_hash=candidate.program_hash,
        features=candidate.features,
        round=round_,
        latency_secs=statistics.median(outcome.run_secs) if timed and outcome.run_secs else None,
        censored=outcome.outcome == Outcome.CUT_OFF,
        trace=candidate.trace,
    )
