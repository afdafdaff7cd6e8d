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
import sys

from bench import report, report_space, space_rows, workloads
from bench.farm import running_farm
from bench.processes import BenchError
from bench.space_comparing import compared
from bench.space_rows import Rows
from bench.space_search import TUNE_TIR

_SPACES = ("stock", "tilefarm")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--workloads",
        type=workloads.asked,
        default="C2D-a",
        help=f"names and lists, commas between: {', '.join(workloads.LISTS)}",
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
        for name in arguments.workloads:
            for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
                try:
                    rows = compared(farm, workloads.workload(name), spaces, seed=seed, marks=marks)
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
