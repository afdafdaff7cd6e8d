"""Writes one Plan of a contraction into a schedule, with public primitives that every TVM replays.

Loops, from the outside: (batch, outer columns, outer rows) over the cores; blocks of depth; rows, columns
and rows again of tiles; depth; the register tile, its rows and vectors unrolled. With one tile in the inner
rows' loop a tile of scalars stays in the first cache while columns pass; with one in the middle, columns do.
Outer factors and the depth's are sampled and can be mutated; the register tile is the plan's own.
"""

import math
from dataclasses import dataclass
from typing import Any

from tuner.addresses import bytes_of
from tuner.space.axes import last_long, n_steps
from tuner.space.calls import gains_from_vectors
from tuner.space.contraction import Contraction
from tuner.space.epilogue import epilogue_of
from tuner.space.fitting_tiles import divides
from tuner.space.marks import mark
from tuner.space.normal_form import NormalForm, normal_form
from tuner.space.padding import padding_of, write_lines
from tuner.space.plans import Plan, Staging
from tuner.space.registers import (
    STACK_BYTES,
    fused,
    peel,
    sampled,
    sum_in_registers,
    take_from_registers,
)
from tuner.space.staging import MIN_LANES, below, space_rows, write_stage, write_tail

_MAX_TILES = 64
#: Tiles of a peeled loop go in groups of so many; of these tiles one in so many may be empty, or one alone;
#: and so many groups at least make a block.
_GROUPS, _FULL, _MIN_BLOCK = (2, 3, 4, 5, 6, 7, 8), 32, 4
#: Tiles of columns, of all batches, for each core that keep it busy.
_ENOUGH = 8
_MAX_PIECES = 16
#: The deepest sums that go from registers to their place.
_SHORT = 256
#: So many tiles are never parted, for a square of so many vectors; larger squares come by themselves alone.
_SQUARES, _LARGE = (1, 2, 4), 8


@dataclass(frozen=True, slots=True, kw_only=True)
class _Nest:
    #: The loop over the cores.
    outer: Any
    #: The innermost loop over register tiles.
    last: Any
    #: Pieces of operands are copied at this loop.
    inner: Any
    #: Accumulators start before this loop.
    start: Any
    #: Rows and vectors of the register tile, the longer side outside, and lanes.
    tile: tuple[Any, ...]
    #: Of the depth: the loop within each row of the tile.
    taps: Any | None


def tile(schedule: Any, block: Any, contraction: Contraction, plan: Plan, *, lanes: int, cores: int) -> None:
    """Raises what TVM raises where the plan does not fit the block."""
    form = normal_form(schedule, block, contraction, plan)
    square = _square_rows(contraction, plan, lanes)
    grouped = 1 if square is None else square // plan.tile.rows
    nest = _nest(schedule, block, plan, lanes=lanes, cores=cores, n_rows=form.n_rows, grouped=grouped)
    _write_padding(schedule, block, contraction, nest, plan, lanes=lanes)
    if _takes_from_registers(schedule, form.tail, contraction, plan):
        tail = schedule.cache_write(block, 0, "global") if form.tail is None else form.tail
        schedule.reverse_compute_at(tail, nest.last, preserve_unit_loops=True)
        take_from_registers(schedule, below(schedule, tail, nest.last), lanes=lanes, ends=plan.ends)
        mark(schedule, tail)
    elif form.tail is not None:
        schedule.reverse_compute_at(form.tail, nest.outer, preserve_unit_loops=True)
        write_tail(
            schedule,
            form.tail,
            after=nest.outer,
            lanes=lanes,
            columns=contraction.extents[1],
            rows=square,
            ends=contraction.extents[1] % plan.tile.columns > 0,
        )
        mark(schedule, form.tail)
    _write_stages(schedule, form, nest, plan, lanes=lanes)
    sum_in_registers(schedule, block, nest.tile, start=nest.start, taps=nest.taps)
    mark(schedule, block)


def largest_taken(schedule: Any, block: Any, contraction: Contraction) -> int | None:
    """Elements of the largest tile that goes from registers to what reads its results.

    None where nothing reads them tile by tile, or only behind all of a core's.
    """
    epilogue = epilogue_of(schedule, block, contraction)
    if epilogue is None or not contraction.writes_rows or contraction.extents[2] > _SHORT:
        return None
    if not gains_from_vectors(schedule.get(epilogue.block)):
        return None
    return (STACK_BYTES - 1) // bytes_of(contraction.dtype)


def _takes_from_registers(schedule: Any, tail: Any | None, contraction: Contraction, plan: Plan) -> bool:
    """A register tile goes to its place by itself, so that its sums are never in memory.

    Else they are stored, after zeros, and read again behind all of a core's tiles: a dense layer of 1024 x
    256, 16 deep, with bias and ReLU, took 63 µs so, 51 from registers; of 640 x 1416, 80 deep, 1098 and 876;
    a product of 1024 x 1000, 40 deep, 568 and 546. From 192 deep on both are level (Zen 3, two cores). The
    last, lesser vector of columns goes so too: 1 x 1 over 77 x 77, channels first, 32 to 160, bias and ReLU,
    took 174 µs, since 151 (Zen 5).
    """
    _, columns, depth = contraction.extents
    n_bytes = plan.tile.rows * plan.tile.columns * bytes_of(contraction.dtype)
    if depth > _SHORT or plan.blocks_depth or n_bytes >= STACK_BYTES:
        return False
    is_whole = columns % plan.tile.columns == 0 or (plan.ends and tail is not None)
    if not contraction.writes_rows or not is_whole:
        return False
    if tail is not None:
        return gains_from_vectors(schedule.get(tail))
    # Of a tile that goes on in the next line TVM has both lines copied whole.
    long = [axis for axis in contraction.rows if axis.extent > 1]
    is_in_line = len(long) <= 1 or divides(contraction.rows, plan.tile.rows)
    _, line = last_long(contraction.columns)
    return is_in_line and n_steps(line) % plan.tile.columns == 0


def _write_padding(
    schedule: Any, block: Any, contraction: Contraction, nest: _Nest, plan: Plan, *, lanes: int
) -> None:
    """Lays its rows apart where a tile's would crowd; pads within a core's tile where the plan says so."""
    node = schedule.get(block)
    for side, staging in ((contraction.scalars, plan.scalars), (contraction.vectors, plan.vectors)):
        buffer = node.reads[side.read].source
        padding = padding_of(schedule, block, buffer) if staging is Staging.NONE else None
        if padding is None:
            continue
        if side is contraction.scalars and plan.tile.rows > contraction.roomy_rows:
            space_rows(schedule, padding)
        if plan.pads_within:
            schedule.compute_at(padding, nest.outer, preserve_unit_loops=True)
            write_lines(schedule, below(schedule, padding, nest.outer), schedule.get(padding), lanes=lanes)
            mark(schedule, padding)


def _write_stages(schedule: Any, form: NormalForm, nest: _Nest, plan: Plan, *, lanes: int) -> None:
    for stage, staging in ((form.vectors, plan.vectors), (form.scalars, plan.scalars)):
        if stage is None:
            continue
        after = nest.inner if staging is Staging.TILE else None
        if after is not None:
            schedule.compute_at(stage.block, after, preserve_unit_loops=True)
        write_stage(schedule, stage, after=after, lanes=lanes)
        mark(schedule, stage.block)


def _nest(
    schedule: Any, block: Any, plan: Plan, *, lanes: int, cores: int, n_rows: int, grouped: int
) -> _Nest:
    *loops, columns, depth = schedule.get_loops(block)
    batch, row_loops = loops[:-n_rows], loops[-n_rows:]
    rows, *group, tile_rows = _row_tiles(schedule, row_loops, plan, grouped=grouped)
    # A vector of three registers was 28 times slower than a loop over single ones.
    columns, tile_vectors, tile_lanes = schedule.split(columns, [None, plan.tile.columns // lanes, lanes])
    tile = plan.tile.nest(tile_rows, tile_vectors, tile_lanes, lanes=lanes)
    n_pieces = math.prod(int(schedule.get(loop).extent) for loop in (*batch, columns))
    spreads_rows = n_pieces < _ENOUGH * cores or not _keeps_rows(plan)
    outer_columns: list[Any] = []
    if plan.ends:
        vectors = [tile_vectors] if plan.tile.columns > lanes else []
        peel(schedule, columns, *vectors, tile_lanes)  # else TVM takes the last vector apart, lane by lane
        spreads_rows = not plan.peels
    else:
        *outer_columns, columns = sampled(schedule, columns, n=2, max_innermost=_MAX_TILES)
    *outer_rows, middle_rows, rows = sampled(schedule, rows, n=2 + spreads_rows, max_innermost=_MAX_TILES)
    if group:
        schedule.reorder(rows, *group)
        rows = schedule.fuse(rows, *group)
    blocks: list[Any] = []
    depths: list[Any] = []
    if plan.blocks_depth:
        pieces, depth = schedule.split(depth, [None, plan.depth_grain])
        outer_depth, pieces = sampled(schedule, pieces, n=2, max_innermost=_MAX_PIECES)
        blocks, depths = [outer_depth], [pieces]
    several = len(plan.depth_loops) > 1
    steps = schedule.split(depth, list(plan.depth_loops)) if several else [depth]
    depths += [steps[-1], *steps[:-1]] if plan.taps_first else steps
    taps = None if plan.taps is None else depths.pop(plan.taps)
    innermost = tile if taps is None else (*tile[:-1], taps, tile[-1])
    outer = [*batch, *outer_columns, *outer_rows]
    schedule.reorder(*outer, *blocks, middle_rows, columns, rows, *depths, *innermost)
    over_cores = schedule.fuse(*outer) if len(outer) > 1 else outer[0]
    schedule.parallel(over_cores)
    if plan.peels:
        peel(schedule, middle_rows, rows)
    return _Nest(
        outer=over_cores,
        last=rows,
        inner=blocks[0] if blocks else over_cores,
        start=blocks[0] if blocks else depths[0],
        tile=tile,
        taps=taps,
    )


def _row_tiles(schedule: Any, loops: list[Any], plan: Plan, *, grouped: int) -> tuple[Any, ...]:
    """Loops over tiles and over the rows of one, of all the rows' loops; between them one over a group.

    Peeled ones go in groups: a unit loop takes no hint. Others go `grouped` where none of a square's tiles
    may be another core's.
    """
    if plan.peels:
        (rows,) = loops
        n_groups, size = tile_groups(int(schedule.get(rows).extent), plan.tile.rows)
        return tuple(schedule.split(rows, [n_groups, size, plan.tile.rows]))
    if grouped > 1:
        (rows,) = loops
        return tuple(schedule.split(rows, [None, grouped, plan.tile.rows]))
    within: list[Any] = []
    outer, left = list(loops), plan.tile.rows
    while len(outer) > 1 and int(schedule.get(outer[-1]).extent) <= left:
        left //= int(schedule.get(outer[-1]).extent)
        within.insert(0, outer.pop())
    rows, row = schedule.split(outer.pop(), [None, left])
    return fused(schedule, [*outer, rows]), fused(schedule, [row, *within])


def _square_rows(contraction: Contraction, plan: Plan, lanes: int) -> int | None:
    """Rows of whole tiles in a line that make squares of vectors, in which turned results go to their lines.

    None where there are none, or where the last tile has fewer. Of vectors of filters each element was stored
    by itself: 112 x 112, 3 to 64 channels, strided, took 128 µs so, by squares 108; 3 to 32 by seven by seven
    taps 223 and 208 (Zen 3, two cores).
    """
    if contraction.writes_rows or plan.peels:
        return None
    line = next((axis.extent for axis in reversed(contraction.rows) if axis.extent > 1), 1)
    found = [count * plan.tile.rows for count in _SQUARES if line % (count * plan.tile.rows) == 0]
    sizes = {rows: min(math.gcd(rows, lanes), _LARGE) for rows in found}
    best = max(sizes, key=lambda rows: (sizes[rows], -rows), default=None)
    return best if best is not None and sizes[best] >= MIN_LANES else None


def _keeps_rows(plan: Plan) -> bool:
    """Its rows are better off on one core, where there are columns enough for all.

    Columns that are copied within an outer tile would be copied again for other rows; and of peeled rows TVM
    cannot tell which core has the last, and leaves conditions in their tile.
    """
    return plan.vectors is Staging.TILE or plan.peels


def tile_groups(rows: int, tile_rows: int) -> tuple[int, int]:
    """How many groups of how many tiles: such as can be blocked by, if there are any with few empty tiles.

    No group is empty, nor is a tile before it: of such a group TVM's LoopPartition makes a loop that begins
    before its first step, and writes outside of its buffers.
    """
    n_tiles = -(-rows // tile_rows)
    found = [(-(-n_tiles // size), size) for size in _GROUPS]
    most_empty = max(1, n_tiles // _FULL)
    good = [(n, size) for n, size in found if _has_block(n) and n * size - n_tiles <= most_empty]
    return (good or found)[0]


def _has_block(count: int) -> bool:
    return any(count % size == 0 for size in range(_MIN_BLOCK, _MAX_TILES + 1))
