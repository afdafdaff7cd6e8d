"""`python -m bench space`: stock's design space against ours at equal trials, workload by workload.

One embedded service, one job at a time, spaces interleaved over the seeds, each with its own isolation key.
Of the fastest five trials of each one is chosen by a fresh process, as a service confirms a record before it
publishes it, and timed by the careful evaluator in three others: they load TVM and none of our rules, and
replay the traces. `stock` is stock's space in our search; `--space tune_tir,tilefarm` compares with stock's
own search, whose runs are cached as `bench stock` made them (64 trials a batch). `--trials 64,256` judges a
search of 256 by its first 64 trials as well. Rows are kept beside the table and stay in it until the same
seed is run again; `taskset -c 0 python -m bench space …` tunes and times for one core.
"""

import argparse
import itertools
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from bench import evaluate, machine, report, report_space, space_rows, vendors, workloads
from bench.evaluate import Timed
from bench.farm import Farm, running_farm
from bench.processes import BenchError
from bench.space_rows import Row, Rows, SpaceRun
from bench.space_search import TUNE_TIR, Found, of_space, of_tune_tir
from bench.suite import Workload

#: A process alone may lie on slow pages, or meet a slow moment of a shared machine.
_CARE = evaluate.Care(repeats=6, repeat_ms=20.0, processes=3)
#: In which one is chosen of the fastest: the least of many single times is often a lucky one.
_CHOICE = evaluate.Care(repeats=6, repeat_ms=20.0)
_SPACES = ("stock", "tilefarm")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--workloads", default="C2D-a", help=f"names, or a list: {', '.join(workloads.LISTS)}"
    )
    parser.add_argument("--space", default=",".join(_SPACES), help=f"names, {TUNE_TIR} for stock itself")
    parser.add_argument("--trials", default="64", help="several: the most are searched, the others its first")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--dry", action="store_true", help="leave docs/ as it is")
    parser.add_argument(
        "--only-table", action="store_true", help="write docs/ from what is kept, run nothing"
    )


def main(arguments: argparse.Namespace) -> int:
    spaces = tuple(arguments.space.split(","))
    marks = tuple(sorted({int(trials) for trials in arguments.trials.split(",")}))
    if arguments.only_table:
        _publish()
        return 0
    failed: list[str] = []
    with running_farm() as farm:
        for name in workloads.asked(arguments.workloads):
            for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
                try:
                    rows = _rows(farm, workloads.workload(name), spaces, seed=seed, marks=marks)
                except BenchError as error:
                    print(f"{name}, seed {seed}: {error}", file=sys.stderr)
                    failed.append(f"{name} {seed}")
                    continue
                print(report_space.table([Rows(rows=(row,)) for row in rows]), flush=True)
                if not arguments.dry:
                    for row in rows:
                        space_rows.keep(row)
                    _publish()
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _publish() -> None:
    report.write_section("space", report_space.summary(space_rows.kept(workloads.LISTS["all"])))


def _rows(
    farm: Farm, workload: Workload, spaces: Sequence[str], *, seed: int, marks: Sequence[int]
) -> list[Row]:
    """One for each number of trials. Raises BenchError where a best trial does not build or run."""
    found = {
        space: of_tune_tir(workload, farm.target, seed=seed, marks=marks)
        if space == TUNE_TIR
        else of_space(farm, workload, space=space, seed=seed, marks=marks)
        for space in (spaces if seed % 2 == 0 else spaces[::-1])
    }
    before = _of_libraries(workload, farm.target)
    times = _judged(workload, found, farm.target)
    after = _of_libraries(workload, farm.target)
    libraries = {name: _middle(before[name], after[name]) for name in vendors.LIBRARIES}
    return [
        Row(
            workload=workload.name,
            trials=trials,
            seed=seed,
            flops=workload.flops,
            bytes=sum(4 * math.prod(shape) for shape in vendors.shapes(workload.module)),
            target=dict(farm.target),
            machine=str(machine.this_machine()),
            commit=machine.commit(),
            runs={space: _run(found[space][trials], times[space, trials]) for space in spaces},
            libraries=libraries,
            peak_gflops=times[spaces[0], trials].peak_gflops,
            copy_gb_per_sec=times[spaces[0], trials].copy_gb_per_sec,
            quiet_peak_gflops=times[spaces[0], trials].quiet_peak_gflops,
        )
        for trials in marks
    ]


def _run(found: Found, timed: Timed) -> SpaceRun:
    return SpaceRun(
        wall_secs=found.wall_secs,
        search_secs=found.search_secs,
        outcomes=found.outcomes,
        careful_secs=timed.secs,
        difference=timed.difference,
        quiet_secs=timed.quiet_secs,
    )


def _judged(
    workload: Workload, searches: Mapping[str, Mapping[int, Found]], target: Mapping[str, Any]
) -> dict[tuple[str, int], Timed]:
    """By space and trials, the times of the one that is chosen. A trace is timed once."""
    wanted = {
        (space, trials): found.traces
        for space, founds in searches.items()
        for trials, found in founds.items()
    }
    traces = dict(itertools.chain(*(each.items() for each in wanted.values())))
    first = evaluate.timed(workload.module, traces, target, _CHOICE)
    chosen = {key: min(each, key=lambda name: first[name].secs) for key, each in wanted.items()}
    finals = {name: traces[name] for name in chosen.values()}
    times = evaluate.timed(workload.module, finals, target, _CARE)
    return {key: times[name] for key, name in chosen.items()}


def _of_libraries(workload: Workload, target: Mapping[str, Any]) -> dict[str, float | None]:
    return {name: vendors.secs(name, workload.name, workload.module, target) for name in vendors.LIBRARIES}


def _middle(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else (first + second) / 2
