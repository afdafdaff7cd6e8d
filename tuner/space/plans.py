"""The ways in which one contraction may be tiled: register tiles times where its operands are read from.

Each plan becomes a design space of its own, because instructions differ; what is a number is sampled within
it. Few plans are made, the most hopeful ones: each takes its share of every population.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from tuner.space.axes import Axis
from tuner.space.contraction import Contraction
from tuner.space.fitting_tiles import (
    divides,
    ending_tiles,
    even_tiles,
    has_whole_columns,
    peeled_tiles,
    results_in_copy,
    results_in_place,
    shares_too_much,
    sliding_tiles,
    whole_tiles,
)
from tuner.space.vectors import (
    FMAS_PER_CYCLE,
    RegisterTile,
    VectorUnit,
    best_tiles,
    ending_speed,
    hope,
    hope_of_ended,
    part_of,
    register_tiles,
    speed_of,
)

#: Up to this depth sums stay in registers from their first product to their last. Beyond it columns that are
#: read where they lie have to come from near, that is from an operand of at most so many elements: 1024 cubed
#: made 80 GFLOP/s, its depth in pieces 178; 512 cubed 439 on two cores, in pieces 372 (Intel, AVX-512).
_SHALLOW, _NEAR = 384, 1 << 18
#: The same where a copy has the columns in the order of the depth: 512 cubed made 412 GFLOP/s, in pieces 386,
#: 1024 cubed 205 on one core, in pieces 198; 1152 deep both were level.
_SHALLOW_COPIED = 1024
#: Vectors of half the width are offered where less than this share of whole ones' lanes would be used: 24 and
#: 40 columns, 0.75 and 0.83, took 307 and 119 µs padded, 226 and 111 µs with eight lanes (Zen 4).
_FILLED = 0.95
_GAIN = 1.1
#: How much more hope a tile needs that pads columns where others need not: 101 x 1000 of 768 took 1169 µs by
#: 6 x 2 vectors, 1253 by 2 x 5 (Zen 3). With few rows or a small depth the copy takes as long as the product.
_FULLER, _LARGE = 1.05, 64
#: How much more hope a tile needs whose last one in each line is lesser, and which part at least of the best
#: of all: lines of 7 and 13 pixels, 0.75 and 0.79 of peak with 16 registers, gained nothing or took up to a
#: tenth longer; 17 and more, from 0.85 on, gained up to 25 %. Less is enough with channels first, where what
#: else there is copies the image tap by tap for a few filters: 30 of 60 x 38 x 38 took 161 µs for 213, 23 of
#: 47 x 31 x 31 by five by five taps 216 for 267, and half as long with 16 registers (an Intel with AVX-512).
_MORE, _LEAST, _LEAST_TURNED = 1.1, 0.92, 0.5
#: A little more is enough where a line's sums are long and its columns near, for each line reads them anew.
#: 3 x 3 by 6 x 2 vectors in place of 4 x 2, of 28 x 28, 64 to 128: 698 µs for 757, of 56 x 56, 64 to 64 1692
#: and 1822, eight images of 14 x 14 692 and 755; 27 deep 1496 and 1066, 2304 by 512 columns 13.2 ms and 11.7,
#: 1152 by 256 level (Zen 3, two cores).
_LITTLE_MORE, _LONG = 1.02, 256
#: Pieces of a depth are at least so long, where it has a divisor like it.
_GRAIN, _MIN_GRAIN, _MAX_GRAIN = 64, 16, 256
#: Of rows, for each core, where these share them alone and not evenly.
_LEAST_PIECES = 4
#: Elements of their operand: 1500 of 384, 64 deep, took 366 µs with a lesser last vector and 388 padded, 250
#: of 512, 1024 deep, 1480 and 1230 (Zen 4).
_NEAR_ENDING = 1 << 17
_N_ENDING = 2
#: Or of what one tile reads, while a core's rows pass over it; of the second number where vectors are split.
#: 150 deep, 40 x 3481 took 99 µs so and 153 padded, 192 x 289, 768 deep, 215 and 245, 512 x 1001, 512 deep,
#: 1210 and 1216 (Zen 5); of splitting CPUs no others were at hand than those above.
_NEAR_ENDING_TILE = (1 << 15, 1 << 13)


class Staging(StrEnum):
    """Where an operand is copied to, in the order in which the kernel reads it."""

    NONE = "none"
    #: Once, before the contraction, by all cores.
    ROOT = "root"
    #: Piece by piece, within an outer tile: it stays in a core's cache.
    TILE = "tile"


class Padded(NamedTuple):
    """Operands that are made by a block that pads them."""

    scalars: bool = False
    vectors: bool = False


_UNPADDED = Padded()


_Choice = tuple[RegisterTile, Staging, Staging]
#: With whether the padding stands within an outer tile.
_Placement = tuple[*_Choice, bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    tile: RegisterTile
    scalars: Staging
    vectors: Staging
    #: Pieces of the depth are multiples of this.
    depth_grain: int
    #: Extents of the loops over one grain, or over the whole depth where it is not split.
    depth_loops: tuple[int, ...]
    #: The last of these comes before the others.
    taps_first: bool = False
    #: The depth is split in pieces, and accumulators return to memory in between.
    blocks_depth: bool
    #: The last tile has fewer rows, and loops of its own; else rows are padded to whole tiles.
    peels: bool = False
    #: Which of the depth's loops is written out within the tile, for each row by itself: rows share scalars.
    taps: int | None = None
    #: The window's edges are padded within an outer tile, else once before the contraction.
    pads_within: bool = False
    #: The last vector of columns is a lesser one, and has a nest of its own; cores share rows alone.
    ends: bool = False


def plans(
    contraction: Contraction, unit: VectorUnit, *, n_tiles: int = 2, padded: Padded = _UNPADDED
) -> tuple[Plan, ...]:
    """The most hopeful first; of the register tiles the `n_tiles` best.

    The block that pads the scalars' operand can lay its rows apart.
    """
    if padded.scalars:
        contraction = replace(contraction, roomy_rows=max(tile.rows for tile in register_tiles(unit)))
    best = best_tiles(register_tiles(unit), unit, results_in_copy(contraction), count=n_tiles)
    unstaged = whole_tiles(contraction, unit, count=n_tiles)
    peeled = peeled_tiles(contraction, unit)
    even = _even(contraction, unit, (*peeled, *unstaged), count=n_tiles)
    is_ready = _vectors_lie_ready(contraction, unit)
    found = [
        *_unstaged(contraction, (*peeled, *unstaged, *even), is_ready=is_ready),
        *_staged(contraction, best, full=not unstaged, is_ready=is_ready),
    ]
    return tuple(_plan(contraction, unit, choice) for choice in _placed(dict.fromkeys(found), padded))


def _even(
    contraction: Contraction, unit: VectorUnit, others: Sequence[RegisterTile], *, count: int
) -> tuple[RegisterTile, ...]:
    """Tiles of padded columns, the best alone beside others whose columns are whole."""
    rows, _, depth = contraction.extents
    found = even_tiles(contraction, unit, count=1 if others else count)
    if not others:
        return found
    results = results_in_place(contraction)
    best, other = (
        max((hope(tile, unit, results) for tile in tiles), default=0.0) for tiles in (found, others)
    )
    return found if min(rows, depth) >= _LARGE and best > _FULLER * other else ()


def _plan(contraction: Contraction, unit: VectorUnit, choice: _Placement, *, ends: bool = False) -> Plan:
    tile, scalars, vectors, pads_within = choice
    rows, _, depth = contraction.extents
    grain = _depth_grain(contraction.depth, depth)
    has_time = scalars is vectors is Staging.NONE and _has_time(contraction, unit)
    is_near = depth * tile.columns <= _NEAR if has_time else _is_near(contraction, vectors)
    blocks_depth = max(grain, _SHALLOW) < depth and not is_near
    depth_loops = _steps(contraction, grain if blocks_depth else depth, scalars, vectors)
    return Plan(
        tile=tile,
        scalars=scalars,
        vectors=vectors,
        depth_grain=grain,
        depth_loops=depth_loops,
        taps_first=(
            scalars is Staging.NONE and len(depth_loops) > 1 and shares_too_much(contraction, tile, unit)
        ),
        blocks_depth=blocks_depth,
        peels=scalars is Staging.NONE and rows % tile.rows > 0,
        pads_within=pads_within,
        ends=ends,
    )


def ending_plans(
    contraction: Contraction, unit: VectorUnit, *, cores: int, padded: Padded = _UNPADDED
) -> tuple[Plan, ...]:
    """Columns that fill no whole vectors are read where they lie, and written at once.

    Padded they would be copied, and all results written twice: 35 of 6400, eight deep, took 34 µs so, 23 with
    a lesser last vector, 32 deep 92 and 76; 163 of 1600, 64 deep, 175 and 158 (Zen 4).
    """
    if not contraction.columns_lie or not ending_speed(contraction.extents[1], unit):
        return ()
    tiles = [tile for tile in ending_tiles(contraction, unit) if _may_end(contraction, tile, unit, cores)]
    found = [(tile, Staging.NONE, Staging.NONE) for tile in tiles[:_N_ENDING]]
    return tuple(_plan(contraction, unit, choice, ends=True) for choice in _placed(found, padded))


def _may_end(contraction: Contraction, tile: RegisterTile, unit: VectorUnit, cores: int) -> bool:
    """Its columns are near enough, and the cores share the rows evenly, or many of them."""
    rows, columns, depth = contraction.extents
    near = _NEAR_ENDING_TILE[unit.fmas_per_cycle < FMAS_PER_CYCLE]
    if depth * columns > _NEAR_ENDING and depth * tile.columns >= near:
        return False
    # Of peeled rows TVM cannot tell which core has the last.
    n_pieces = math.prod(axis.extent for axis in contraction.batch)
    n_pieces *= rows // tile.rows if rows % tile.rows == 0 else 1
    return n_pieces % cores == 0 or n_pieces >= _LEAST_PIECES * cores


def sliding_plans(
    contraction: Contraction, unit: VectorUnit, *, padded: Padded = _UNPADDED
) -> tuple[Plan, ...]:
    """Rows share the scalars that a window's taps go over, where one vector holds all columns.

    There each multiply-add loads a scalar of its own, as many as loads can start in a cycle: eight groups of
    56 x 56, 36 channels to eight, took 717 µs so, with three taps for each scalar 625 to 650; 28 x 28, 64
    to eight 45 and 40 (Zen 4), 24 groups 149 and 134 with 16 registers.
    """
    rows, columns, depth = contraction.extents
    taps = contraction.taps
    is_bound = columns == unit.lanes and unit.fmas_per_cycle == FMAS_PER_CYCLE
    if taps is None or not is_bound or depth == taps.extent:
        return ()
    long = [axis for axis in contraction.depth if axis.extent > 1]
    is_ready = _vectors_lie_ready(contraction, unit)
    found = []
    for tile, scalars, vectors, pads_within in _placed(
        _unstaged(contraction, sliding_tiles(contraction, taps, unit), is_ready=is_ready), padded
    ):
        if vectors is not (Staging.NONE if is_ready else Staging.ROOT):
            continue
        plan = Plan(
            tile=tile,
            scalars=scalars,
            vectors=vectors,
            depth_grain=depth,
            depth_loops=tuple(axis.extent for axis in long),
            blocks_depth=False,
            peels=rows % tile.rows > 0,
            taps=long.index(taps),
            pads_within=pads_within,
        )
        found.append(plan)
    return tuple(found)


def narrow_plans(contraction: Contraction, unit: VectorUnit, half: VectorUnit) -> tuple[Plan, ...]:
    """With vectors of half the width, where whole ones would leave much of the columns' last empty."""
    if not _is_fuller(contraction.extents[1], unit, half):
        return ()
    return tuple(plan for plan in plans(contraction, half, n_tiles=1) if plan.scalars is Staging.NONE)


def ready_plans(
    contraction: Contraction, ready: VectorUnit, *, padded: Padded = _UNPADDED
) -> tuple[Plan, ...]:
    """Columns are read where they lie, in vectors that lines of them are made up of.

    In a copy alone short axes of columns fill whole vectors: 1152 x 4 x 8 took 33 µs so, as eights that lie
    ready 23; groups of twelve channels (28 x 28, 96 to 192) padded 150, as twelves 113 (Zen 4).
    """
    found = plans(contraction, ready, padded=padded)
    return tuple(plan for plan in found if plan.vectors is Staging.NONE)


def promise(contraction: Contraction, unit: VectorUnit, lanes: int, plan: Plan) -> float:
    """The share of the unit's peak that a plan may hope for, in vectors of so many lanes."""
    hoped = hope_of_ended if plan.peels else hope
    return hoped(plan.tile, part_of(unit, lanes), results_in_place(contraction)) * speed_of(lanes, unit)


def is_worth_ending(contraction: Contraction, unit: VectorUnit, ended: float, others: float) -> bool:
    """Whether its lines should end with a lesser tile.

    `ended`: what such plans promise; `others`: what those promise that read the scalars in place as well.
    """
    _, columns, depth = contraction.extents
    copied = results_in_copy(contraction)
    most = max(
        hope(tile, part, copied) * speed_of(part.lanes, unit)
        for part in _parts_of(unit)
        for tile in register_tiles(part)
    )
    least = _LEAST if contraction.writes_rows else _LEAST_TURNED
    ends_cheaply = contraction.writes_rows and depth >= _LONG and depth * columns <= _NEAR
    return ended > max((_LITTLE_MORE if ends_cheaply else _MORE) * others, least * most)


def _parts_of(unit: VectorUnit) -> Iterator[VectorUnit]:
    """Itself, half of it, and so on."""
    lanes = unit.lanes
    while lanes:
        yield part_of(unit, lanes)
        lanes //= 2


def _is_fuller(columns: int, unit: VectorUnit, half: VectorUnit) -> bool:
    filled, halves = (columns / (-(-columns // each.lanes) * each.lanes) for each in (unit, half))
    return filled < _FILLED and halves >= _GAIN * filled


def _has_time(contraction: Contraction, unit: VectorUnit) -> bool:
    """A window's columns, read where they lie, may come from far if those of one tile are near.

    There is time where vectors are computed by halves: 7 x 7, 512 to 512, took 1136 to 1176 µs in pieces,
    1101 to 1117 in whole sums, 13 x 13 1352 and 1307, 28 x 28 of 128 520 and 508; with more in a tile, 18432
    deep, 2520 and 2830 (Zen 4). By AVX2 pieces are better (7 x 7 1280 and 1448), and of 1024 cubed, whose
    scalars come from far as well (9480 and 9650).
    """
    return contraction.scalars.repeats and unit.fmas_per_cycle < FMAS_PER_CYCLE


def _is_near(contraction: Contraction, vectors: Staging) -> bool:
    """Sums need not return to memory between pieces of the depth."""
    _, columns, depth = contraction.extents
    is_copied = vectors is not Staging.NONE
    return depth <= _SHALLOW_COPIED and (is_copied or depth * columns <= _NEAR)


def _steps(contraction: Contraction, size: int, scalars: Staging, vectors: Staging) -> tuple[int, ...]:
    """Extents of the loops over a piece of the depth; one where both operands are copied."""
    steps = _loops(contraction.depth, size)
    return steps if Staging.NONE in (scalars, vectors) else (math.prod(steps),)


def _depth_grain(axes: tuple[Axis, ...], depth: int) -> int:
    """The divisor nearest to _GRAIN, of those that wrap around no axis in their midst where there are any.

    The depth itself where it has no divisor within bounds.
    """
    divisors = [size for size in range(_MIN_GRAIN, min(depth, _MAX_GRAIN) + 1) if depth % size == 0]
    whole = [size for size in divisors if divides(axes, size)]
    return min(whole or divisors, key=lambda size: max(size, _GRAIN) / min(size, _GRAIN), default=depth)


def _loops(axes: tuple[Axis, ...], size: int) -> tuple[int, ...]:
    """A loop for each axis that `size` steps of the fused axes go through; one loop where they wrap.

    An operand that is read where it lies has then an address that grows evenly with each loop. With one loop
    over several axes it is divided anew at each step: 20 instructions beside nine multiply-adds.
    """
    if not divides(axes, size):
        return (size,)
    found: list[int] = []
    for axis in reversed(axes):
        extent = min(size, axis.extent)
        size //= extent
        if extent > 1:
            found.append(extent)
    return tuple(reversed(found)) or (1,)


def _unstaged(
    contraction: Contraction, tiles: Iterable[RegisterTile], *, is_ready: bool
) -> Iterator[_Choice]:
    """The scalars' operand is read where it lies."""
    for tile in tiles:
        if is_ready and has_whole_columns(contraction, tile):
            yield tile, Staging.NONE, Staging.NONE
        yield tile, Staging.NONE, Staging.ROOT
        yield tile, Staging.NONE, Staging.TILE


def _placed(choices: Iterable[_Choice], padded: Padded) -> Iterator[_Placement]:
    """With whether the padding stands within an outer tile: so it does where columns are copied before.

    Where nothing is copied both are offered: eight groups of 20 x 20 took 293 µs padded before, 260 within,
    channels first 64 to 3 of 48 x 48 61 and 42 (Zen 4), but several outer tiles of columns pad the same rows
    again.
    """
    for tile, scalars, vectors in choices:
        in_place = Staging.NONE
        within = (padded.scalars and scalars is in_place) or (padded.vectors and vectors is in_place)
        if not within or vectors is not Staging.ROOT:
            yield tile, scalars, vectors, False
        if within and vectors is not Staging.TILE:
            yield tile, scalars, vectors, True


def _staged(
    contraction: Contraction, tiles: Iterable[RegisterTile], *, full: bool, is_ready: bool
) -> Iterator[_Choice]:
    columns = contraction.extents[1]
    for tile in tiles if full else tuple(tiles)[:1]:
        if is_ready and columns % tile.columns == 0:
            yield tile, Staging.TILE, Staging.NONE
        yield tile, Staging.TILE, Staging.ROOT
        if full:
            yield tile, Staging.TILE, Staging.TILE


def _vectors_lie_ready(contraction: Contraction, unit: VectorUnit) -> bool:
    """The vectors' operand steps its innermost axis by a column, and no vector goes across its lines."""
    lies_along = contraction.columns[-1].place in contraction.vectors.contiguous
    return lies_along and contraction.run % unit.lanes == 0
