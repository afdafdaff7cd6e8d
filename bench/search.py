"""`python -m bench search`: what a search costs by itself, and what it finds at equal trials.

No service around it: strategy and worker's Measurer in turns, so that two settings, or two commits, differ in
the search alone. CPU seconds of the strategy are its own; the device measures meanwhile nothing else.
"""

import argparse
import json
import statistics
import time
from collections.abc import Mapping, Sequence
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
    rows = []
    for name in arguments.workloads.split(","):
        workload = suite.workload(name)
        for seed in range(arguments.seeds):
            for strategy in arguments.strategies.split(","):
                with measuring(target) as device:
                    run = _run(device, workload, target, strategy, seed, arguments)
                rows.append([name, strategy, str(seed), *_cells(run, arguments.trials)])
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


def _cells(run: Mapping[str, Any], trials: int) -> list[str]:
    best: Sequence[float | None] = run["best"]
    reached = [best[min(mark, len(best)) - 1] for mark in _marks(trials)]
    return [
        *("-" if secs is None else f"{1e6 * secs:.1f}" for secs in reached),
        f"{run['search_secs']:.1f}",
        str(run["not_ok"]),
    ]


def _run(
    device: Measuring,
    workload: Workload,
    target: Mapping[str, Any],
    strategy: str,
    seed: int,
    arguments: argparse.Namespace,
) -> dict[str, Any]:
    """The best latency (seconds) after each trial, and the strategy's CPU seconds."""
    options = SearchOptions(**arguments.options)
    search = _open(strategy, workload, target, seed, options, space=arguments.space)
    best: list[float | None] = []
    search_secs, not_ok, round_ = 0.0, 0, 0
    while len(best) < arguments.trials:
        began = time.process_time()
        batch = search.suggest(
            min(options.batch_size, arguments.trials - len(best)), round_=round_
        ).candidates
        search_secs += time.process_time() - began
        if not batch:
            break
        outcomes = device.outcomes(workload.module, [each.trace for each in batch], MeasurePolicy())
        results = [result_of(*pair, round_=round_) for pair in zip(batch, outcomes, strict=True)]
        search.update(results)
        for outcome, result in zip(outcomes, results, strict=True):
            secs = result.latency_secs if outcome.outcome == Outcome.OK else None
            before = best[-1] if best else None
            best.append(min((known for known in (secs, before) if known is not None), default=None))
            not_ok += outcome.outcome != Outcome.OK
        round_ += 1
    return {"best": best, "search_secs": search_secs, "not_ok": not_ok}


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
