"""`python -m bench draws`: stock's design space against ours on shapes that nobody has seen before.

Sizes of each kind are drawn at random from `--seed`, which is the search's seed as well; each workload is
searched and timed as by `python -m bench space`. A drawn workload's name holds its sizes, so that
`python -m bench space --workloads NAME` repeats one. Rows are kept in docs/benchmarks/draws/.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence

from bench import report, report_draws, report_space, space_rows, workloads
from bench.drawing import Dice
from bench.farm import running_farm
from bench.kinds import KINDS
from bench.names import drawn_name
from bench.processes import BenchError
from bench.space_comparing import compared, parameter_bytes
from bench.space_rows import Rows
from bench.suite import Workload

_DIRECTORY = report.PICTURES / "draws"
_SPACES = ("stock", "tilefarm")
#: Others are drawn in place of what takes long to search, or no time to run.
_MOST_FLOPS, _LEAST_BYTES, _MOST_BYTES = 1e9, 64 << 10, 48 << 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kinds", type=_kinds, default=tuple(KINDS), help="names, drawn from in turn")
    parser.add_argument("--count", type=int, default=len(KINDS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--trials", type=int, default=24)
    parser.add_argument("--dry", action="store_true", help="leave docs/ as it is")
    parser.add_argument("--list", action="store_true", help="say what would be drawn, search nothing")


def main(arguments: argparse.Namespace) -> int:
    drawn = _drawn(arguments.kinds, seed=arguments.seed, count=arguments.count)
    if arguments.list:
        for workload in drawn:
            print(f"{workload.name}: {workload.flops / 1e6:.1f} MFLOP, {parameter_bytes(workload)} bytes")
        return 0
    failed: list[str] = []
    with running_farm() as farm:
        for workload in drawn:
            try:
                rows = compared(farm, workload, _SPACES, seed=arguments.seed, marks=[arguments.trials])
            except BenchError as error:
                print(f"{workload.name}: {error}", file=sys.stderr)
                failed.append(workload.name)
                continue
            print(report_space.table([Rows(rows=(row,)) for row in rows]), flush=True)
            if not arguments.dry:
                for row in rows:
                    space_rows.keep(row, directory=_DIRECTORY)
                report.write_section("draws", report_draws.summary(space_rows.every(_DIRECTORY)))
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _kinds(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    unknown = [name for name in names if name not in KINDS]
    if unknown:
        raise argparse.ArgumentTypeError(f"no such kind: {', '.join(unknown)}; there are {', '.join(KINDS)}")
    return names


def _drawn(kinds: Sequence[str], *, seed: int, count: int) -> Iterator[Workload]:
    """Of each kind in turn. Loads TVM."""
    dice = Dice(seed)
    for at in range(count):
        kind = kinds[at % len(kinds)]
        found = workloads.workload(drawn_name(kind, KINDS[kind].draw(dice)))
        while not _is_within_bounds(found):
            found = workloads.workload(drawn_name(kind, KINDS[kind].draw(dice)))
        yield found


def _is_within_bounds(workload: Workload) -> bool:
    return workload.flops <= _MOST_FLOPS and _LEAST_BYTES <= parameter_bytes(workload) <= _MOST_BYTES
