"""Of the register tiles that registers hold those that a contraction's extents allow, the best of each kind.

Whole tiles divide rows and columns; peeled and even ones leave some rows for a lesser last tile. Those whose
rows share scalars are pixels of a line, with the window's taps inside of them.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from tuner.space.axes import Axis
from tuner.space.contraction import Contraction
from tuner.space.vectors import (
    RegisterTile,
    Results,
    VectorUnit,
    best_tiles,
    hope,
    hope_of_ended_columns,
    register_tiles,
)

#: Unstaged tiles are as good as others where their hope is at least this share of the best.
_NEARLY = 0.8
#: The same where other tiles need a copy of a sliding window, element by element and nine times an image for
#: 3x3. Channels first, 96 to 128 of 27x27 on Zen 3: a nest with a tile of 0.59 took 1.15 ms, one with a tile
#: of 0.88, padded, and its copy 1.87.
_NEARLY_SLIDING = 0.5
#: Of the best that may end so: 4 x 2 vectors took 147 µs where 8 x 2 took 114 (Zen 5).
_NEARLY_ENDING = 0.95
#: A last tile of fewer rows pays from this depth on: 1533 µs for 1643 of whole tiles at 512 (Zen 3), level at
#: 192, and 181 for 159 at 64. Where the image would be copied tap by tap it pays at once: 53 x 53, 3 to 32
#: channels, 27 deep, took 87 µs with that copy, 25 so; 31 x 31, groups of two, 87 and 36 (Zen 4).
_DEEP, _DEEP_SLIDING = 256, 8
#: Of a tile whose rows share scalars: with fewer too little is shared, with more sums wait in memory.
_MIN_SLIDING, _MAX_SLIDING = 5, 28


def whole_tiles(contraction: Contraction, unit: VectorUnit, *, count: int) -> tuple[RegisterTile, ...]:
    """The best tiles that need no padding, where they are nearly as good as any."""
    aligned = [tile for tile in register_tiles(unit) if _is_aligned(contraction, tile)]
    return _nearly_best(contraction, unit, aligned, count=count)


def peeled_tiles(contraction: Contraction, unit: VectorUnit) -> tuple[RegisterTile, ...]:
    """One that leaves some rows for a lesser last tile, if none that divides them is as good."""
    left = [tile for tile in register_tiles(unit) if _may_be_peeled(contraction, tile)]
    best = _nearly_best(contraction, unit, left, count=1)
    results = results_in_place(contraction)
    whole = [hope(tile, unit, results) for tile in whole_tiles(contraction, unit, count=1)]
    return tuple(tile for tile in best if hope(tile, unit, results) > max(whole, default=0.0))


def even_tiles(contraction: Contraction, unit: VectorUnit, *, count: int) -> tuple[RegisterTile, ...]:
    """Of rows that are read where they lie, maybe a lesser last one; columns are padded in their copy."""
    if contraction.vectors.repeats:
        return ()
    even = [tile for tile in register_tiles(unit) if _has_even_rows(contraction, tile)]
    return _nearly_best(contraction, unit, even, count=count)


def ending_tiles(contraction: Contraction, unit: VectorUnit) -> tuple[RegisterTile, ...]:
    """Whose last vector of columns may be a lesser one, nearly as good as the best."""
    results = results_in_place(contraction)
    (best,) = best_tiles(register_tiles(unit), unit, results, count=1)
    hopes = {
        tile: hope_of_ended_columns(tile, unit, results)
        for tile in register_tiles(unit)
        if _has_even_rows(contraction, tile)
    }
    nearly = _NEARLY_SLIDING if contraction.vectors.repeats else _NEARLY
    least = max(nearly * hope(best, unit, results), _NEARLY_ENDING * max(hopes.values(), default=0.0))
    ranked = sorted(hopes, key=lambda tile: (-hopes[tile], tile.rows))
    return tuple(tile for tile in ranked if hopes[tile] >= least)


def sliding_tiles(contraction: Contraction, taps: Axis, unit: VectorUnit) -> Iterator[RegisterTile]:
    """One for which registers are enough, and one of more rows: some sums or scalars then wait in memory."""
    rows, columns, _ = contraction.extents
    tiles = [RegisterTile(rows=high, columns=columns) for high in range(_MIN_SLIDING, _MAX_SLIDING + 1)]
    even = [tile for tile in tiles if _has_even_rows(contraction, tile)]
    room = unit.registers - 2 * taps.extent
    for fits in (True, False):
        # The fewest, and of these as even ones as there are.
        of_these = [tile for tile in even if (tile.rows <= room) == fits]
        yield from sorted(of_these, key=lambda tile: (-(-rows // tile.rows), tile.rows))[:1]


def shares_too_much(contraction: Contraction, tile: RegisterTile, unit: VectorUnit) -> bool:
    """The depth ends with taps whose steps share more scalars with a tile's rows than registers are left for.

    LLVM unrolls so short a loop, loads each of them once, and spills sums for it: 28 x 28, 128 to 128, 3 x 3,
    channels first, by 14 x 2 vectors took 667 µs, with the taps before the channels 466 (Zen 5).
    """
    long = [axis for axis in contraction.depth if axis.extent > 1]
    if contraction.taps is None or len(long) < 2 or long[-1] != contraction.taps:
        return False
    vectors = tile.columns // unit.lanes
    shared = tile.rows + contraction.taps.extent - 1
    return tile.rows * vectors + vectors + shared > unit.registers


def _nearly_best(
    contraction: Contraction, unit: VectorUnit, tiles: Iterable[RegisterTile], *, count: int
) -> tuple[RegisterTile, ...]:
    results = results_in_place(contraction)
    (best,) = best_tiles(register_tiles(unit), unit, results, count=1)
    is_costly = contraction.scalars.slides or contraction.of_itself
    share = _NEARLY_SLIDING if is_costly else _NEARLY
    least = share * hope(best, unit, results)
    found = best_tiles(tiles, unit, results, count=count)
    return tuple(tile for tile in found if hope(tile, unit, results) >= least)


def results_in_place(contraction: Contraction) -> Results:
    """What tiles cover that read the scalars where they lie."""
    return replace(results_in_copy(contraction), roomy_rows=contraction.roomy_rows)


def results_in_copy(contraction: Contraction) -> Results:
    """What tiles cover that read both operands in the order of the depth."""
    rows, columns, depth = contraction.extents
    return Results(rows=rows, columns=columns, depth=depth, casts=contraction.casts, taken=contraction.taken)


def _is_aligned(contraction: Contraction, tile: RegisterTile) -> bool:
    """Whole tiles, whose addresses are a base and constants."""
    return _has_whole_rows(contraction, tile) and has_whole_columns(contraction, tile)


def _may_be_peeled(contraction: Contraction, tile: RegisterTile) -> bool:
    """More rows than a tile has, and no whole tiles of them; addresses are a base and constants."""
    deep = contraction.extents[2] >= _deep(contraction)
    return deep and _leaves_rows(contraction, tile) and has_whole_columns(contraction, tile)


def _has_even_rows(contraction: Contraction, tile: RegisterTile) -> bool:
    """Of rows read where they lie the addresses are a base and constants, a lesser last tile's too."""
    deep = contraction.extents[2] >= _deep(contraction)
    return _has_whole_rows(contraction, tile) or (deep and _leaves_rows(contraction, tile))


def _deep(contraction: Contraction) -> int:
    return _DEEP_SLIDING if contraction.scalars.repeats else _DEEP


def _has_whole_rows(contraction: Contraction, tile: RegisterTile) -> bool:
    rows, _, _ = contraction.extents
    return rows % tile.rows == 0 if contraction.rows_in_line else divides(contraction.rows, tile.rows)


def _leaves_rows(contraction: Contraction, tile: RegisterTile) -> bool:
    rows, _, _ = contraction.extents
    axes = [axis for axis in contraction.rows if axis.extent > 1]
    even = len(axes) == 1 or contraction.rows_in_line
    return even and rows > tile.rows and rows % tile.rows > 0


def has_whole_columns(contraction: Contraction, tile: RegisterTile) -> bool:
    """They are whole tiles, whose addresses are a base and constants."""
    _, columns, _ = contraction.extents
    if contraction.columns_in_line:
        return columns % tile.columns == 0
    return divides(contraction.columns, tile.columns)


def divides(axes: tuple[Axis, ...], size: int) -> bool:
    """Pieces of this size do not wrap around an axis in their midst."""
    for axis in reversed(axes):
        if size % axis.extent:
            return axis.extent % size == 0
        size //= axis.extent
    return size == 1
