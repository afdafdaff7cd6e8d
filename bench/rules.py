"""`python -m bench rules`: what each rule of ours gives alone, and what it costs in search time.

A search without a service for each choice of rules: TVM's alone, with one of ours, with all of ours, and with
all but their padded or packed plans. A choice that spans the same design spaces as one before it is not run
again. The fastest trials are timed again by the careful evaluator, interleaved in fresh processes.
"""

import argparse
import dataclasses
import json
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench import evaluate, machine, report, workloads
from bench.measuring import Measuring, measuring
from bench.processes import BenchError
from bench.search import play
from bench.suite import Workload
from tuner.cost_model.for_target import cost_model
from tuner.search.evolutionary import EvolutionarySearch
from tuner.search.known import Known
from tuner.search.options import SearchOptions
from tuner.search.setup import SearchSetup, open_setup
from tuner.space.rules import OURS
from tuner.target import detect_local_target
from tuner.trace import canonical_text

_CARE = evaluate.Care(repeats=6, repeat_ms=20.0, processes=3)
_HEAD = ["workload", "rules", "design spaces", "best, µs", "× stock", "search, CPU s", "not ok"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which of our rules stand beside TVM's."""

    only: tuple[str, ...]
    #: Design spaces whose traces have this instruction are left out, unless they are stock's as well.
    without: str | None = None


STOCK = "stock's alone"
CHOICES: Mapping[str, Choice] = {
    STOCK: Choice(only=()),
    **{name: Choice(only=(name,)) for name in OURS},
    "all": Choice(only=tuple(OURS)),
    "all, nothing padded": Choice(only=tuple(OURS), without="PadEinsum"),
    "all, nothing packed": Choice(only=tuple(OURS), without="TransformLayout"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    n_spaces: int
    search_secs: float
    not_ok: int
    trace: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--workloads", type=workloads.asked, default="GMM-512,CBR,DEP,SFM", help="names and lists"
    )
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--docs", action="store_true", help="write the table into docs/benchmarks.md")


def main(arguments: argparse.Namespace) -> int:
    target = detect_local_target()
    rows: list[list[str]] = []
    for name in arguments.workloads:
        workload = workloads.workload(name)
        try:
            found = rows_of(workload, target, seeds=arguments.seeds, trials=arguments.trials)
        except BenchError as error:
            print(f"{name}: {error}", file=sys.stderr)
            return 1
        rows += found
        print("\n".join(report.markdown_table(_HEAD, found)), flush=True)
    if arguments.docs:
        words = (
            f"{machine.this_machine()}; target `{_named(target)}`; commit {machine.commit()}. "
            f"{arguments.trials} trials, {arguments.seeds} seed(s)."
        )
        report.write_section("rules", "\n".join([words, "", *report.markdown_table(_HEAD, rows)]))
    return 0


def _named(target: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in target.items())


def rows_of(workload: Workload, target: Mapping[str, Any], *, seeds: int, trials: int) -> list[list[str]]:
    runs: dict[str, list[Run]] = {}
    secs: dict[str, list[float]] = {}
    for seed in range(seeds):
        with measuring(target) as device:
            found = {
                name: _run(device, workload, setup, opened_secs=opened, trials=trials)
                for name, setup, opened in opened_choices(workload.module, target, seed=seed)
            }
        traces = {name: json.loads(run.trace) for name, run in found.items()}
        times = evaluate.timed(workload.module, traces, target, _CARE)
        for name, run in found.items():
            runs.setdefault(name, []).append(run)
            secs.setdefault(name, []).append(times[name].secs)
    return [_cells(workload.name, name, runs[name], secs[name], secs[STOCK]) for name in runs]


def opened_choices(
    module: str, target: Mapping[str, Any], *, seed: int
) -> Iterator[tuple[str, SearchSetup, float]]:
    """(name, setup, CPU seconds of opening it) of each choice whose design spaces no earlier one has."""
    known: list[Counter[str]] = []
    of_stock: Counter[str] = Counter()
    for name, choice in CHOICES.items():
        began = time.process_time()
        setup = open_setup(
            module=module,
            target=target,
            space={"rules": "tilefarm", "only": choice.only},
            seed=seed,
            options=SearchOptions(),
        )
        opened_secs = time.process_time() - began
        texts = [_steps(space) for space in setup.design_spaces]
        kept = [
            (space, text)
            for space, text in zip(setup.design_spaces, texts, strict=True)
            if choice.without is None or text in of_stock or choice.without not in text
        ]
        spanned = Counter(text for _, text in kept)
        if name == STOCK:
            of_stock = spanned
        if spanned in known:
            continue
        known.append(spanned)
        yield name, dataclasses.replace(setup, design_spaces=tuple(space for space, _ in kept)), opened_secs


#: Leave a trace, and change nothing.
_QUERIES = frozenset({"GetSBlock", "GetLoops", "GetChildBlocks", "GetProducers", "GetConsumers"})


def _steps(space: Any) -> str:
    """What a design space does, but to which loop. A rule that offers nothing has looked around as well."""
    instructions = json.loads(canonical_text(space.trace))[0]
    return json.dumps([[kind, attrs] for kind, _, attrs, _ in instructions if kind not in _QUERIES])


def _run(
    device: Measuring, workload: Workload, setup: SearchSetup, *, opened_secs: float, trials: int
) -> Run:
    search = EvolutionarySearch(setup, Known(), cost_model(setup.target))
    played = play(device, workload, search, batch_size=setup.options.batch_size, trials=trials)
    if played.trace is None:
        raise BenchError("no trial ran")
    return Run(
        n_spaces=len(setup.design_spaces),
        search_secs=opened_secs + played.search_secs,
        not_ok=played.not_ok,
        trace=played.trace,
    )


def _cells(
    workload: str, name: str, runs: Sequence[Run], secs: Sequence[float], base: Sequence[float]
) -> list[str]:
    ratios = [before / after for before, after in zip(base, secs, strict=True)]
    return [
        workload,
        name,
        f"{runs[0].n_spaces}",
        f"{1e6 * statistics.median(secs):.1f}",
        f"{statistics.median(ratios):.2f}",
        f"{statistics.median(run.search_secs for run in runs):.1f}",
        f"{statistics.median(run.not_ok for run in runs):.0f}",
    ]
