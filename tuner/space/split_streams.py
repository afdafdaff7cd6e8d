"""A stream whose cores share the depth: each reads lines of the columns' operand from end to end.

Where a core takes a piece of the columns it leaves every line again after that piece, and where no divisor
gives the cores as many columns one of them waits. One row of 2280 x 4096 took 1760 to 2020 µs so, by three
pieces for two cores, as sums of eight parts of the depth 950 to 1330; of 1000 x 1024, which two pieces
divide, 70 and 46; three rows of 1001 x 2048 314 and 157, four of 2048 x 4096 2325 and 1377 (Zen 3). Up to
eight rows may be faster so than by register tiles: seven of 1024 x 1000 took 201 µs by tiles and 159 so,
eight of 2048 x 2048 1376 and 882, of 1000 x 512, which stay in a cache, 66 and 94.
"""

from dataclasses import dataclass
from typing import Any

from tuner.space.axes import n_steps
from tuner.space.contraction import Contraction
from tuner.space.epilogue import epilogue_of
from tuner.space.marks import mark
from tuner.space.normal_form import fuse_sides, fuse_sides_of_epilogue
from tuner.space.registers import fused, peel
from tuner.space.streams import steps_of
from tuner.space.vectors import largest_divisor

_MAX_ROWS = 8
#: Parts of the depth, for each core: as many as this where that is fair, and at least, and at most.
_PARTS, _LEAST_PARTS, _MOST_PARTS = 4, 2, 8
#: Steps of a part. Its sums are written, and read once more, for all of them.
_LEAST_STEPS = 32
#: Columns of a line, of all rows: their sums stay near. Shorter lines are not worth it. One row of 4099 x
#: 1024 took 206 µs by whole lines, 262 by pieces of the columns, two of 16384 x 512 1018, by lines of 2048
#: 1168.
_MAX_LINE, _MIN_LINE = 8192, 256
#: Parts that are added up behind them, all written out.
_MOST_SUMMED = 64
#: Sums of all parts from which on the cores share what adds them up, and columns of a share.
_SHARED_SUMS, _SHARE = 1 << 15, 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitStream:
    #: Steps of a part of the depth; of the last part there may be fewer.
    part: int
    #: Of them, at a time.
    steps: int
    #: Columns of a line.
    line: int


def split_streams_of(contraction: Contraction, *, cores: int) -> tuple[SplitStream, ...]:
    """None where operands do not lie so, or where rows, or a batch, keep the cores busy.

    Of the fewer steps at a time: of sixteen all were slower than of eight (1.1 to 1.3 times).
    """
    rows, columns, depth = contraction.extents
    is_alone = n_steps(contraction.batch) == 1 and rows <= _MAX_ROWS
    if cores == 1 or not contraction.columns_lie or not is_alone:
        return ()
    line = largest_divisor(columns, at_most=_MAX_LINE // rows)
    steps = min(steps_of(depth), default=1)
    part = _part(depth, steps=steps, cores=cores)
    return () if part is None or line < _MIN_LINE else (SplitStream(part=part, steps=steps, line=line),)


def _part(depth: int, *, steps: int, cores: int) -> int | None:
    """Steps that leave the busiest core the fewest; None where its share is too short, or cores are many."""
    sizes = {n: steps * -(-depth // (steps * cores * n)) for n in range(_LEAST_PARTS, _MOST_PARTS + 1)}

    def waits(n: int) -> tuple[int, int]:
        count = -(-depth // sizes[n])
        return -(-count // cores) * sizes[n], abs(n - _PARTS)

    fair = [n for n in sizes if sizes[n] >= _LEAST_STEPS and -(-depth // sizes[n]) <= _MOST_SUMMED]
    found = min(fair, key=waits, default=None)
    return None if found is None else sizes[found]


def write_split_stream(schedule: Any, block: Any, contraction: Contraction, stream: SplitStream) -> None:
    """Raises what TVM raises where it cannot."""
    epilogue = epilogue_of(schedule, block, contraction)
    fuse_sides(schedule, block, contraction)
    *_, depth = schedule.get_loops(block)
    parts, _ = schedule.split(depth, [None, stream.part])
    _write_part(schedule, schedule.rfactor(parts, 0), contraction, stream)
    *batch, rows, columns, parts = schedule.get_loops(block)
    schedule.unroll(parts)
    _, n_columns, n_depth = contraction.extents
    share = largest_divisor(n_columns, at_most=_SHARE)
    if share >= _MIN_LINE and n_columns * -(-n_depth // stream.part) >= _SHARED_SUMS:
        outer, columns = schedule.split(columns, [None, share])
        schedule.parallel(fused(schedule, [*batch, rows, outer]))
    if epilogue is not None:
        fuse_sides_of_epilogue(schedule, epilogue, contraction)
        schedule.reverse_compute_at(epilogue.block, columns, preserve_unit_loops=True)
        mark(schedule, epilogue.block)
    mark(schedule, block)


def _write_part(schedule: Any, part: Any, contraction: Contraction, stream: SplitStream) -> None:
    *batch, rows, columns, parts, depth = schedule.get_loops(part)
    outer, columns = schedule.split(columns, [None, stream.line])
    depth, step = schedule.split(depth, [None, stream.steps])
    schedule.reorder(*batch, parts, outer, depth, columns, step, rows)
    schedule.parallel(fused(schedule, [*batch, parts, outer]))
    if contraction.extents[2] % stream.part:
        peel(schedule, depth)
    for loop in (step, rows):
        schedule.unroll(loop)
    begun = schedule.decompose_reduction(part, depth)
    schedule.unroll(schedule.get_loops(begun)[-1])
    mark(schedule, part)
