"""A contraction of few rows whose other operand lies along its columns: that operand streams through once.

Each of its elements is used for a few rows alone, so that such a kernel waits for memory, which gives most
to who reads long pieces in order. A core takes a long piece of the columns, several steps of the depth at
a time, while the sums of the piece wait in its first cache. A register tile would read few columns of a step
and go on to the next, a page further. Columns that fill no vectors are a line that LLVM makes vectors of:
tiles would copy and pad an operand that is read once or twice. Where no divisor has as many lines for each
core, lines are whole vectors, and what is left of the columns is a lesser one behind them.
"""

import math
from dataclasses import dataclass
from typing import Any

from tuner.space.axes import n_steps
from tuner.space.contraction import Contraction
from tuner.space.epilogue import epilogue_of
from tuner.space.marks import mark
from tuner.space.normal_form import fuse_sides, fuse_sides_of_epilogue
from tuner.space.registers import begin, peel, sampled
from tuner.space.staging import write_tail
from tuner.space.vectors import VectorUnit, largest_divisor

#: Eight rows of 2048 x 2048 took 387 µs by register tiles, 515 as a stream; four of 4096 x 2048 884 and 657;
#: one of 5504 x 2048 1270 and 819 (Zen 4).
#: Columns that fill no vectors are copied and padded by tiles: eight rows of 1009 x 2048 took 325 µs so, 240
#: as a stream, nine of 394 x 4800 343 and 250, sixteen of 1001 x 2048 317 and 514.
_MAX_ROWS, _MAX_ROWS_OF_LINES = 4, 10
#: Of a prime number of rows.
_MAX_TOGETHER = 7
#: Steps of the depth at a time: sums are loaded and stored once for each.
_STEPS = (8, 16)
#: Fewer are not worth it.
_FEW_STEPS = 4
_MIN_LANES = 4
#: Vectors of a piece of the columns, of each row: half of a first cache.
_MAX_VECTORS = 256
#: Columns of a line, of each row: at most, and at least where cores are to have as many each.
_MAX_LINE, _MIN_LINE = 4096, 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    #: Of the depth, at a time.
    steps: int
    #: None: a piece of the columns is one line.
    lanes: int | None
    #: That use an element together.
    rows: int
    #: Columns of a line, all but the last; None: any number that divides them.
    line: int | None = None


def streams_of(contraction: Contraction, unit: VectorUnit, *, cores: int) -> tuple[Stream, ...]:
    """The ways to write a contraction as a stream; none where its operands do not lie so."""
    rows, columns, depth = contraction.extents
    lanes = math.gcd(columns, unit.lanes)
    is_of_lines = lanes < _MIN_LANES and columns >= unit.lanes
    most = _MAX_ROWS_OF_LINES if is_of_lines else _MAX_ROWS
    together = _together(rows)
    is_known = is_of_lines or lanes >= _MIN_LANES
    if not contraction.columns_lie or rows > most or not is_known or together is None:
        return ()
    lines = _lesser_lines(contraction, unit, together=together, cores=cores) if is_of_lines else ()
    return tuple(
        Stream(steps=size, lanes=None if is_of_lines else lanes, rows=together, line=line)
        for size in steps_of(depth)
        for line in lines or (None,)
    )


def steps_of(depth: int) -> tuple[int, ...]:
    """Of the depth, at a time: as many as divide it, or else as many as ever, and lesser ones at its end."""
    found = dict.fromkeys(largest_divisor(depth, at_most=most) for most in _STEPS)
    several = tuple(size for size in found if size >= _FEW_STEPS)
    return several or tuple(size for size in _STEPS if size < depth) or tuple(s for s in found if s > 1)


def _lesser_lines(
    contraction: Contraction, unit: VectorUnit, *, together: int, cores: int
) -> tuple[int, ...]:
    """Columns of a line that leave a lesser one; none where a divisor has as many lines for each core.

    One row of 3121 x 355 took 70 µs as a single line, 46 as two and a lesser one; of 2003 x 1024 166 and 133,
    four rows of 1009 x 2048 409 and 336. Groups of rows are shared out instead, with whole lines: eight rows
    took 567 µs so, 415 in two groups (Zen 3, two cores).
    """
    rows, columns, _ = contraction.extents
    counts = (count for count in range(1, columns // _MIN_LINE + 1) if columns % count == 0)
    is_even = any(count % cores == 0 and columns // count <= _MAX_LINE for count in counts)
    if is_even or n_steps(contraction.batch) * rows > together:
        return ()
    rounds = -(-columns // (cores * _MAX_LINE))
    sizes = (columns // (cores * n * unit.lanes) * unit.lanes for n in (rounds, 2 * rounds))
    return tuple(size for size in sizes if size >= _MIN_LINE)


def _together(rows: int) -> int | None:
    """Rows that use an element together; None where that would be one of many."""
    found = largest_divisor(rows, at_most=_MAX_ROWS)
    if found > 1 or rows == 1:
        return found
    return rows if rows <= _MAX_TOGETHER else None


def write_stream(schedule: Any, block: Any, contraction: Contraction, stream: Stream) -> None:
    """Raises what TVM raises where it cannot."""
    epilogue = epilogue_of(schedule, block, contraction)
    fuse_sides(schedule, block, contraction)
    *batch, rows, columns, depth = schedule.get_loops(block)
    groups, rows = schedule.split(rows, [None, stream.rows])
    lanes = []
    if stream.lanes is not None:
        columns, within = schedule.split(columns, [None, stream.lanes])
        lanes = [within]
    if stream.line is None:
        outer, columns = sampled(schedule, columns, n=2, max_innermost=_MAX_VECTORS if lanes else _MAX_LINE)
    else:
        outer, columns = schedule.split(columns, [None, stream.line])
    depth, step = schedule.split(depth, [None, stream.steps])
    schedule.reorder(*batch, outer, groups, depth, columns, step, rows, *lanes)
    cores = schedule.fuse(*batch, outer, groups)
    schedule.parallel(cores)
    _, n_columns, n_depth = contraction.extents
    parted = (
        (cores, n_columns, stream.line),
        (columns, n_columns, stream.line),
        (depth, n_depth, stream.steps),
    )
    for loop, extent, part in parted:
        if part is not None and extent % part:
            peel(schedule, loop)
    for loop in (step, rows):
        schedule.unroll(loop)
    for loop in lanes:
        schedule.vectorize(loop)
    if epilogue is not None:
        fuse_sides_of_epilogue(schedule, epilogue, contraction)
        schedule.reverse_compute_at(epilogue.block, cores, preserve_unit_loops=True)
        if stream.lanes is not None:
            write_tail(schedule, epilogue.block, after=cores, lanes=stream.lanes, columns=stream.lanes)
        mark(schedule, epilogue.block)
    begun = schedule.decompose_reduction(block, depth)
    if lanes:
        begin(schedule, begun, n_loops=2)
    else:
        schedule.unroll(schedule.get_loops(begun)[-1])
    mark(schedule, block)
