"""A contraction of few rows whose operands both lie along the depth: dot products, vectors along the depth.

Each weight is read once, where it lies: packing it would read and write it once more, and such a kernel waits
for memory (a dense layer of one row, or of a small batch). An accumulator is a vector of partial sums, which
rfactor makes an axis of its own; the sums across a vector are a second, small block. Tiles of rows stand
inside of the columns or outside, where a core's columns stay in its second cache: 16 rows of 1024 numbers are
twice a first cache (16 x 4096 x 1024: 2030 and 1780 µs, Zen 3).
"""

from dataclasses import dataclass
from typing import Any

from tuner.space.axes import n_steps
from tuner.space.contraction import Contraction
from tuner.space.epilogue import epilogue_of
from tuner.space.marks import mark
from tuner.space.normal_form import fuse_sides, fuse_sides_of_epilogue
from tuner.space.registers import fused, peel, sampled, sum_in_registers
from tuner.space.staging import below, write_tail
from tuner.space.vectors import VectorUnit, largest_divisor

#: With more rows a weight is used so often that a register tile of columns' vectors is faster.
_MAX_ROWS = 16
_MAX_TILE_ROWS = 4
#: Accumulators beside which a vector of each operand finds room in 16 registers, and in 32.
_ACCUMULATORS = {16: 8, 32: 16}
_MAX_TILES = 64
#: Fewer accumulators wait for each other: one row of 1009 x 1024 took 68 µs column by column, 45 by eights,
#: two rows of 2003 x 512 82 and 47. Of a short depth the CPU begins the next sums meanwhile: twelve heads of
#: 509 x 64 took 26 µs so, 34 by eights (Zen 3).
_FEW = 4
#: Of the depth, before a lesser one: one row of 1009 x 1009 took 446 µs as tiles, 42 so.
_LEAST_VECTORS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Dots:
    """rows x columns dot products at a time; of the last columns fewer, where they do not divide them."""

    rows: int
    columns: int


def dots_of(contraction: Contraction, unit: VectorUnit) -> tuple[Dots, ...]:
    """The ways to write a contraction as dot products; none where its operands do not lie so."""
    rows, columns, _ = contraction.extents
    last = contraction.depth[-1]
    along = all(operand.contiguous == (last.place,) for operand in (contraction.scalars, contraction.vectors))
    # Of a tile of columns of several axes what follows would take too much (see tuner.space.normal_form).
    _, wraps = contraction.wraps
    is_whole = last.extent % unit.lanes == 0
    is_long = n_steps(contraction.depth) == last.extent >= _LEAST_VECTORS * unit.lanes
    if not along or wraps or rows > _MAX_ROWS or not (is_whole or is_long):
        return ()
    high = largest_divisor(rows, at_most=_MAX_TILE_ROWS)
    wide = _ACCUMULATORS[unit.registers] // high
    widths = [largest_divisor(columns, at_most=width) for width in (wide, max(1, wide // 2))]
    if widths[0] * high < _FEW:
        widths = [min(wide, columns), widths[0]]
    return tuple(Dots(rows=high, columns=width) for width in dict.fromkeys(widths))


def write_dots(schedule: Any, block: Any, contraction: Contraction, dots: Dots, *, lanes: int) -> None:
    """Raises what TVM raises where it cannot."""
    epilogue = epilogue_of(schedule, block, contraction)
    fuse_sides(schedule, block, contraction)
    ends = contraction.extents[1] % dots.columns > 0
    sums = _partial_sums(schedule, block, dots, lanes=lanes, ends=ends)
    schedule.reverse_compute_at(block, sums.cores, preserve_unit_loops=True)
    if epilogue is not None:
        fuse_sides_of_epilogue(schedule, epilogue, contraction)
        schedule.reverse_compute_at(epilogue.block, sums.cores, preserve_unit_loops=True)
        write_tail(schedule, epilogue.block, after=sums.cores, lanes=lanes, columns=dots.columns)
        mark(schedule, epilogue.block)
    if contraction.extents[2] % lanes:
        peel(schedule, sums.steps, sums.tile[-1])  # of the steps alone TVM takes the last vector apart
    sum_in_registers(schedule, sums.block, sums.tile, start=sums.steps)
    _across(schedule, block, sums.cores, dots)
    for each in (sums.block, block):
        mark(schedule, each)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sums:
    """Partial sums: their block, the loop over the cores, the depth's loop, and rows, columns, lanes."""

    block: Any
    cores: Any
    steps: Any
    tile: tuple[Any, ...]


def _partial_sums(schedule: Any, block: Any, dots: Dots, *, lanes: int, ends: bool) -> _Sums:
    *_, depth = schedule.get_loops(block)
    _, within = schedule.split(depth, [None, lanes])
    partial = schedule.rfactor(within, factor_axis=-1)
    *batch, rows, columns, steps, within = schedule.get_loops(partial)
    rows, tile_rows = schedule.split(rows, [None, dots.rows])
    columns, tile_columns = schedule.split(columns, [None, dots.columns])
    outer, columns = sampled(schedule, columns, n=2, max_innermost=_MAX_TILES)
    is_high = int(schedule.get(rows).extent) > 1
    *outer_rows, rows = sampled(schedule, rows, n=2, max_innermost=_MAX_TILES) if is_high else [rows]
    tile = (tile_rows, tile_columns, within)
    schedule.reorder(*batch, outer, *outer_rows, columns, rows, steps, *tile)
    # Of one loop over batches and columns TVM would not know where the lesser tile is.
    cores = fused(schedule, batch if ends and batch else [*batch, outer])
    schedule.parallel(cores)
    if ends:
        peel(schedule, outer if batch else cores)
    return _Sums(block=partial, cores=cores, steps=steps, tile=tile)


def _across(schedule: Any, block: Any, cores: Any, dots: Dots) -> None:
    """Sums of several columns side by side: one addition alone waits for the one before it."""
    within, *outer, columns = below(schedule, block, cores)  # rfactor puts the sum's own axis first
    columns, tile = schedule.split(columns, [None, dots.columns])
    schedule.reorder(*outer, columns, within, tile)
    schedule.unroll(tile)
    schedule.decompose_reduction(block, within)
