"""The ways in which one contraction may be tiled: register tiles times where its operands are read from.

Each plan becomes a design space of its own, because instructions differ; what is a number is sampled within
it. Few plans are made, the most hopeful ones: each takes its share of every population.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from tuner.space.contraction import Axis, Contraction
from tuner.space.vectors import (
    FMAS_PER_CYCLE,
    RegisterTile,
    Results,
    VectorUnit,
    best_tiles,
    hope,
    part_of,
    register_tiles,
    speed_of,
)

#: Unstaged tiles are as good as others where their hope is at least this share of the best.
_NEARLY = 0.8
#: The same where other tiles need a copy of a sliding window, element by element and nine times an image for
#: 3x3. Channels first, 96 to 128 of 27x27 on Zen 3: a nest with a tile of 0.59 took 1.15 ms, one with a tile
#: of 0.88, padded, and its copy 1.87.
_NEARLY_SLIDING = 0.5
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
#: A last tile of fewer rows pays from this depth on: 1533 µs for 1643 of whole tiles at 512 (Zen 3), level at
#: 192, and 181 for 159 at 64. Where the image would be copied tap by tap it pays at once: 53 x 53, 3 to 32
#: channels, 27 deep, took 87 µs with that copy, 25 so; 31 x 31, groups of two, 87 and 36 (Zen 4).
_DEEP, _DEEP_SLIDING = 256, 8
#: How much more hope a tile needs whose last one in each line is lesser, and which part at least of the best
#: of all: lines of 7 and 13 pixels, 0.67 to 0.78 of peak with 16 registers, gained nothing or took up to a
#: tenth longer; 17 and more, from 0.82 on, gained up to 25 %. Less is enough with channels first, where what
#: else there is copies the image tap by tap for a few filters: 30 of 60 x 38 x 38 took 161 µs for 213, 23 of
#: 47 x 31 x 31 by five by five taps 216 for 267, and half as long with 16 registers (an Intel with AVX-512).
_MORE, _LEAST, _LEAST_TURNED = 1.1, 0.86, 0.5
#: Of a tile whose rows share scalars: with fewer too little is shared, with more sums wait in memory.
_MIN_SLIDING, _MAX_SLIDING = 5, 28
#: Pieces of a depth are at least so long, where it has a divisor like it.
_GRAIN, _MIN_GRAIN, _MAX_GRAIN = 64, 16, 256


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    tile: RegisterTile
    scalars: Staging
    vectors: Staging
    #: Pieces of the depth are multiples of this.
    depth_grain: int
    #: Extents of the loops over one grain, or over the whole depth where it is not split.
    depth_loops: tuple[int, ...]
    #: The depth is split in pieces, and accumulators return to memory in between.
    blocks_depth: bool
    #: The last tile has fewer rows, and loops of its own; else rows are padded to whole tiles.
    peels: bool = False
    #: Which of the depth's loops is written out within the tile, for each row by itself: rows share scalars.
    taps: int | None = None
    #: The window's edges are padded within an outer tile, else once before the contraction.
    pads_within: bool = False


def plans(
    contraction: Contraction, unit: VectorUnit, *, n_tiles: int = 2, padded: Padded = _UNPADDED
) -> tuple[Plan, ...]:
    """The most hopeful first; of the register tiles the `n_tiles` best.

    The block that pads the scalars' operand can lay its rows apart.
    """
    if padded.scalars:
        contraction = replace(contraction, roomy_rows=max(tile.rows for tile in register_tiles(unit)))
    rows, columns, depth = contraction.extents
    copied = Results(rows=rows, columns=columns, depth=depth, casts=contraction.casts)
    best = best_tiles(register_tiles(unit), unit, copied, count=n_tiles)
    unstaged = whole_tiles(contraction, unit, count=n_tiles)
    peeled = _peeled_tiles(contraction, unit)
    even = () if unstaged or peeled else _even_tiles(contraction, unit, count=n_tiles)
    is_ready = _vectors_lie_ready(contraction, unit)
    found = [
        *_unstaged(contraction, (*peeled, *unstaged, *even), is_ready=is_ready),
        *_staged(contraction, best, full=not unstaged, is_ready=is_ready),
    ]
    grain = _depth_grain(contraction.depth, depth)
    made = []
    for tile, scalars, vectors, pads_within in _placed(dict.fromkeys(found), padded):
        blocks_depth = grain < depth and _blocks_depth(contraction, vectors)
        plan = Plan(
            tile=tile,
            scalars=scalars,
            vectors=vectors,
            depth_grain=grain,
            depth_loops=_steps(contraction, grain if blocks_depth else depth, scalars, vectors),
            blocks_depth=blocks_depth,
            peels=scalars is Staging.NONE and rows % tile.rows > 0,
            pads_within=pads_within,
        )
        made.append(plan)
    return tuple(made)


def sliding_plans(
    contraction: Contraction, unit: VectorUnit, *, padded: Padded = _UNPADDED
) -> tuple[Plan, ...]:
    """Rows share the scalars that a window's taps go over, where one vector holds all columns.

    There each multiply-add loads a scalar of its own, as many as loads can start in a cycle: 36 groups of
    56 x 56, eight to eight channels, took 717 µs so, with three taps for each scalar 625 to 650; 28 x 28, 64
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
        _unstaged(contraction, _sliding_tiles(contraction, taps, unit), is_ready=is_ready), padded
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
    return hope(plan.tile, part_of(unit, lanes), _in_place(contraction)) * speed_of(lanes, unit)


def is_worth_ending(contraction: Contraction, unit: VectorUnit, ended: float, others: float) -> bool:
    """Whether its lines should end with a lesser tile.

    `ended`: what such plans promise; `others`: what those promise that read the scalars in place as well.
    """
    rows, columns, depth = contraction.extents
    copied = Results(rows=rows, columns=columns, depth=depth, casts=contraction.casts)
    most = max(
        hope(tile, part, copied) * speed_of(part.lanes, unit)
        for part in _parts_of(unit)
        for tile in register_tiles(part)
    )
    least = _LEAST if contraction.writes_rows else _LEAST_TURNED
    return ended > max(_MORE * others, least * most)


def _parts_of(unit: VectorUnit) -> Iterator[VectorUnit]:
    """Itself, half of it, and so on."""
    lanes = unit.lanes
    while lanes:
        yield part_of(unit, lanes)
        lanes //= 2


def _is_fuller(columns: int, unit: VectorUnit, half: VectorUnit) -> bool:
    filled, halves = (columns / (-(-columns // each.lanes) * each.lanes) for each in (unit, half))
    return filled < _FILLED and halves >= _GAIN * filled


def _blocks_depth(contraction: Contraction, vectors: Staging) -> bool:
    """Sums return to memory between pieces of the depth."""
    _, columns, depth = contraction.extents
    is_copied = vectors is not Staging.NONE
    is_near = depth <= _SHALLOW_COPIED and (is_copied or depth * columns <= _NEAR)
    return depth > _SHALLOW and not is_near


def _steps(contraction: Contraction, size: int, scalars: Staging, vectors: Staging) -> tuple[int, ...]:
    """Extents of the loops over a piece of the depth; one where both operands are copied."""
    steps = _loops(contraction.depth, size)
    return steps if Staging.NONE in (scalars, vectors) else (math.prod(steps),)


def whole_tiles(contraction: Contraction, unit: VectorUnit, *, count: int) -> tuple[RegisterTile, ...]:
    """The best tiles that need no padding, where they are nearly as good as any."""
    aligned = [tile for tile in register_tiles(unit) if _is_aligned(contraction, tile)]
    return _nearly_best(contraction, unit, aligned, count=count)


def _peeled_tiles(contraction: Contraction, unit: VectorUnit) -> tuple[RegisterTile, ...]:
    """One that leaves some rows for a lesser last tile, if none that divides them is as good."""
    left = [tile for tile in register_tiles(unit) if _may_be_peeled(contraction, tile)]
    best = _nearly_best(contraction, unit, left, count=1)
    results = _in_place(contraction)
    whole = [hope(tile, unit, results) for tile in whole_tiles(contraction, unit, count=1)]
    return tuple(tile for tile in best if hope(tile, unit, results) > max(whole, default=0.0))


def _even_tiles(contraction: Contraction, unit: VectorUnit, *, count: int) -> tuple[RegisterTile, ...]:
    """Of rows that are read where they lie, maybe a lesser last one; columns are padded in their copy."""
    if contraction.vectors.repeats:
        return ()
    even = [tile for tile in register_tiles(unit) if _has_even_rows(contraction, tile)]
    return _nearly_best(contraction, unit, even, count=count)


def _sliding_tiles(contraction: Contraction, taps: Axis, unit: VectorUnit) -> Iterator[RegisterTile]:
    """One for which registers are enough, and one of more rows: some sums or scalars then wait in memory."""
    rows, columns, _ = contraction.extents
    tiles = [RegisterTile(rows=high, columns=columns) for high in range(_MIN_SLIDING, _MAX_SLIDING + 1)]
    even = [tile for tile in tiles if _has_even_rows(contraction, tile)]
    room = unit.registers - 2 * taps.extent
    for fits in (True, False):
        # The fewest, and of these as even ones as there are.
        of_these = [tile for tile in even if (tile.rows <= room) == fits]
        yield from sorted(of_these, key=lambda tile: (-(-rows // tile.rows), tile.rows))[:1]


def _nearly_best(
    contraction: Contraction, unit: VectorUnit, tiles: Iterable[RegisterTile], *, count: int
) -> tuple[RegisterTile, ...]:
    results = _in_place(contraction)
    (best,) = best_tiles(register_tiles(unit), unit, results, count=1)
    is_costly = contraction.scalars.slides or contraction.of_itself
    share = _NEARLY_SLIDING if is_costly else _NEARLY
    least = share * hope(best, unit, results)
    found = best_tiles(tiles, unit, results, count=count)
    return tuple(tile for tile in found if hope(tile, unit, results) >= least)


def _in_place(contraction: Contraction) -> Results:
    """What tiles cover that read the scalars where they lie."""
    rows, columns, depth = contraction.extents
    return Results(
        rows=rows,
        columns=columns,
        depth=depth,
        roomy_rows=contraction.roomy_rows,
        casts=contraction.casts,
    )


def _depth_grain(axes: tuple[Axis, ...], depth: int) -> int:
    """The divisor nearest to _GRAIN, of those that wrap around no axis in their midst where there are any.

    The depth itself where it has no divisor within bounds.
    """
    divisors = [size for size in range(_MIN_GRAIN, min(depth, _MAX_GRAIN) + 1) if depth % size == 0]
    whole = [size for size in divisors if _divides(axes, size)]
    return min(whole or divisors, key=lambda size: max(size, _GRAIN) / min(size, _GRAIN), default=depth)


def _loops(axes: tuple[Axis, ...], size: int) -> tuple[int, ...]:
    """A loop for each axis that `size` steps of the fused axes go through; one loop where they wrap.

    An operand that is read where it lies has then an address that grows evenly with each loop. With one loop
    over several axes it is divided anew at each step: 20 instructions beside nine multiply-adds.
    """
    if not _divides(axes, size):
        return (size,)
    found: list[int] = []
    for axis in reversed(axes):
        extent = min(size, axis.extent)
        size //= extent
        if extent > 1:
            found.append(extent)
    return tuple(reversed(found)) or (1,)


_Choice = tuple[RegisterTile, Staging, Staging]


def _unstaged(
    contraction: Contraction, tiles: Iterable[RegisterTile], *, is_ready: bool
) -> Iterator[_Choice]:
    """The scalars' operand is read where it lies."""
    for tile in tiles:
        if is_ready and _has_whole_columns(contraction, tile):
            yield tile, Staging.NONE, Staging.NONE
        yield tile, Staging.NONE, Staging.ROOT
        yield tile, Staging.NONE, Staging.TILE


def _placed(choices: Iterable[_Choice], padded: Padded) -> Iterator[tuple[*_Choice, bool]]:
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


def _is_aligned(contraction: Contraction, tile: RegisterTile) -> bool:
    """Whole tiles, whose addresses are a base and constants."""
    return _has_whole_rows(contraction, tile) and _has_whole_columns(contraction, tile)


def _may_be_peeled(contraction: Contraction, tile: RegisterTile) -> bool:
    """More rows than a tile has, and no whole tiles of them; addresses are a base and constants."""
    deep = contraction.extents[2] >= _deep(contraction)
    return deep and _leaves_rows(contraction, tile) and _has_whole_columns(contraction, tile)


def _has_even_rows(contraction: Contraction, tile: RegisterTile) -> bool:
    """Of rows read where they lie the addresses are a base and constants, a lesser last tile's too."""
    deep = contraction.extents[2] >= _deep(contraction)
    return _has_whole_rows(contraction, tile) or (deep and _leaves_rows(contraction, tile))


def _deep(contraction: Contraction) -> int:
    return _DEEP_SLIDING if contraction.scalars.repeats else _DEEP


def _has_whole_rows(contraction: Contraction, tile: RegisterTile) -> bool:
    rows, _, _ = contraction.extents
    return rows % tile.rows == 0 if contraction.rows_in_line else _divides(contraction.rows, tile.rows)


def _leaves_rows(contraction: Contraction, tile: RegisterTile) -> bool:
    rows, _, _ = contraction.extents
    axes = [axis for axis in contraction.rows if axis.extent > 1]
    even = len(axes) == 1 or contraction.rows_in_line
    return even and rows > tile.rows and rows % tile.rows > 0


def _has_whole_columns(contraction: Contraction, tile: RegisterTile) -> bool:
    _, columns, _ = contraction.extents
    if contraction.columns_in_line:
        return columns % tile.columns == 0
    return _divides(contraction.columns, tile.columns)


def _divides(axes: tuple[Axis, ...], size: int) -> bool:
    """Pieces of this size do not wrap around an axis in their midst."""
    for axis in reversed(axes):
        if size % axis.extent:
            return axis.extent % size == 0
        size //= axis.extent
    return size == 1
