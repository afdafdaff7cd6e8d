"""Writes a contraction phase by phase: no tap that meets zeros is multiplied.

Outputs and taps are split by the stride, and phases unrolled: then TVM knows of each copy of the register
tile whether its condition holds, and removes those where it does not. Loops, from the outside: (batch, outer
columns, outer lines, or pieces of few lines) over the cores; phases of the outputs; columns, lines, tiles
of a line; phases of the taps; taps, depth; the register tile. Columns that fill no vectors are padded; a line
may end with a lesser tile; what else stride or tile do not divide gets conditions.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tuner.space.axes import Axis
from tuner.space.contraction import Contraction
from tuner.space.epilogue import epilogue_of
from tuner.space.index_maps import index_map
from tuner.space.marks import mark
from tuner.space.phases import Phase, Phased, phased_of
from tuner.space.registers import peel, sampled, sum_in_registers
from tuner.space.staging import write_tail
from tuner.space.vectors import (
    RegisterTile,
    Results,
    VectorUnit,
    best_tiles,
    hope,
    hope_of_ended,
    register_tiles,
    widened,
)

_MIN_LANES = 4
_MAX_TILES = 64
_N_TILES = 2
#: A tile that divides a line is tried where its hope is at least this share of the best.
_NEARLY = 0.6
#: So few cannot keep cores busy by themselves.
_FEW_LINES = 16
#: Copies of the register tile that TVM unrolls, before it removes those that multiply zeros.
_MAX_COPIES = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseNest:
    """One way to write it."""

    tile: RegisterTile
    lanes: int
    #: The filters are copied once, in panels of a tile's columns.
    packs: bool
    #: There are more columns than results, whole tiles of them.
    pads: bool = False
    #: A line's last tile has fewer rows, and a nest of its own.
    peels: bool = False


def phase_nests(phased: Phased, unit: VectorUnit) -> tuple[PhaseNest, ...]:
    """Empty where its columns are several axes, or phases too many."""
    contraction = phased.contraction
    n_copies = math.prod(phase.stride**2 for phase in phased.phases)
    if len(contraction.columns) != 1 or n_copies > _MAX_COPIES:
        return ()
    (columns,) = contraction.columns
    results = Results(rows=_line_of_a_phase(phased), columns=columns.extent)
    lanes = math.gcd(columns.extent, unit.lanes)
    peels = not _has_few_lines(contraction)
    ready = (False, True) if columns.place in contraction.vectors.contiguous else (True,)
    found = []
    if lanes >= _MIN_LANES:
        found += _nests(replace(unit, lanes=lanes), results, packs=ready, peels=peels)
    wide = min(unit.lanes, max(_MIN_LANES, widened(columns.extent)))
    if lanes < wide >= _MIN_LANES:
        found += _nests(replace(unit, lanes=wide), results, packs=(True,), peels=peels, pads=True)
    return tuple(found)


def _nests(
    unit: VectorUnit, results: Results, *, packs: Sequence[bool], peels: bool, pads: bool = False
) -> list[PhaseNest]:
    fitting = [tile for tile in register_tiles(unit) if pads or results.columns % tile.columns == 0]
    return [
        PhaseNest(tile=tile, lanes=unit.lanes, packs=each, pads=pads, peels=peels and _leaves(tile, results))
        for tile in _tiles(fitting, unit, results, peels=peels)
        for each in packs
    ]


def write_phases(schedule: Any, block: Any, phased: Phased, nest: PhaseNest) -> None:
    """Raises what TVM raises where it cannot."""
    contraction = phased.contraction
    epilogue = epilogue_of(schedule, block, contraction)
    tail = None if epilogue is None else epilogue.block
    if nest.pads or not contraction.writes_rows:
        lined_up = _results_in_vectors(schedule, block, contraction)
        if nest.pads:
            phased = _padded(schedule, block, phased, nest)
        if tail is None:
            tail = lined_up
        else:
            schedule.compute_inline(lined_up)
    if nest.packs:
        _pack(schedule, block, phased, nest)
    cores = _tile(schedule, block, phased, nest)
    if tail is not None:
        schedule.reverse_compute_at(tail, cores, preserve_unit_loops=True)
        last = int(schedule.get(tail).iter_vars[-1].dom.extent)
        write_tail(schedule, tail, after=cores, lanes=nest.lanes, columns=last)
        mark(schedule, tail)


def _tiles(
    tiles: Sequence[RegisterTile], unit: VectorUnit, line: Results, *, peels: bool
) -> tuple[RegisterTile, ...]:
    """The best one that divides a line and the best others: a row with a condition is no accumulator.

    Where a line's last tile may be a lesser one the best that leaves one comes first, if it is better:
    22 x 43, 44 to 112 channels, took 1007 µs by one pixel of seven vectors, 424 by three (Zen 5, two cores).
    """
    ranked = best_tiles(tiles, unit, line, count=_N_TILES)
    dividing = [tile for tile in tiles if line.rows % tile.rows == 0]
    least = _NEARLY * hope(ranked[0], unit, line)
    first = [tile for tile in best_tiles(dividing, unit, line, count=1) if hope(tile, unit, line) >= least]
    if peels:
        whole = max((hope(tile, unit, line) for tile in first), default=0.0)
        left = {tile: hope_of_ended(tile, unit, line) for tile in tiles if _leaves(tile, line)}
        better = [tile for tile in left if left[tile] > whole]
        if better:
            best, *others = sorted(better, key=lambda tile: (-left[tile], tile.rows))
            first, ranked = [best], (*first, *others)
    return tuple(dict.fromkeys([*first, *ranked]))[:_N_TILES]


def _leaves(tile: RegisterTile, line: Results) -> bool:
    """Some rows after whole tiles of them."""
    return line.rows > tile.rows and line.rows % tile.rows > 0


def _has_few_lines(contraction: Contraction) -> bool:
    """The cores share pieces of them."""
    return math.prod(axis.extent for axis in contraction.rows[:-1]) < _FEW_LINES


def _line_of_a_phase(phased: Phased) -> int:
    """How many neighbours in a line of the output have one phase."""
    line = phased.contraction.rows[-1]
    strides = [phase.stride for phase in phased.phases if phase.output == line.place]
    return -(-line.extent // (strides[0] if strides else 1))


def _results_in_vectors(schedule: Any, block: Any, contraction: Contraction) -> Any:
    """The block writes with its columns innermost; the block that is returned takes that to the output."""
    copy = schedule.reindex(block, ("write", 0))
    depth = {axis.place for axis in contraction.depth}
    places = [place for place in range(contraction.n_axes) if place not in depth]
    (columns,) = contraction.columns
    inner = [*(place for place in places if place != columns.place), columns.place]
    schedule.transform_layout(block, ("write", 0), index_map(places, lambda v: [v[place] for place in inner]))
    return copy


def _padded(schedule: Any, block: Any, phased: Phased, nest: PhaseNest) -> Phased:
    """Columns become whole tiles; the block's results are read by one block, as before.

    TVM pads what reads its operands by plain iterators, so the image is copied for as long as that takes.
    """
    contraction = phased.contraction
    scalars, vectors = (
        schedule.reindex(block, ("read", side.read)) for side in (contraction.scalars, contraction.vectors)
    )
    multiples = [1] * contraction.n_axes
    multiples[contraction.columns[0].place] = nest.tile.columns
    schedule.pad_einsum(block, multiples)
    for copy in (scalars, vectors, *schedule.get_consumers(block)):
        schedule.compute_inline(copy)
    padded = phased_of(schedule.get(block))
    if padded is None or padded.phases != phased.phases:
        raise ValueError("padded, the phases are others")
    return padded


def _pack(schedule: Any, block: Any, phased: Phased, nest: PhaseNest) -> None:
    """Filters as [batch, panels, taps, depth, columns of a panel]."""
    contraction = phased.contraction
    operand, size = contraction.vectors, nest.tile.columns
    (columns,) = contraction.columns
    copy = schedule.reindex(block, ("read", operand.read))
    for producer in schedule.get_producers(copy):
        schedule.compute_inline(producer)
    batch = [axis.place for axis in contraction.batch]
    taps = [phase.tap for phase in phased.phases]
    depth = [axis.place for axis in contraction.depth if axis.place not in taps]

    def in_panels(v: dict[int, Any]) -> list[Any]:
        outer = [*(v[place] for place in batch), v[columns.place] // size]
        return [*outer, *(v[place] for place in (*taps, *depth)), v[columns.place] % size]

    schedule.transform_layout(block, ("read", operand.read), index_map(operand.places, in_panels))
    loops = dict(zip(operand.places, schedule.get_loops(copy), strict=True))
    panel, vector, lane = schedule.split(loops[columns.place], [None, size // nest.lanes, nest.lanes])
    outer = [*(loops[place] for place in batch), panel, *(loops[place] for place in depth)]
    schedule.reorder(*outer, vector, *(loops[place] for place in taps), lane)
    schedule.parallel(schedule.fuse(*outer) if len(outer) > 1 else outer[0])
    schedule.vectorize(lane)
    mark(schedule, copy)


def _tile(schedule: Any, block: Any, phased: Phased, nest: PhaseNest) -> Any:
    """Returns the loop over the cores."""
    contraction = phased.contraction
    loops = dict(enumerate(schedule.get_loops(block)))
    phases = [_split_off(schedule, loops, phase.output, phase) for phase in phased.phases]
    tap_phases = [_split_off(schedule, loops, phase.tap, phase) for phase in phased.phases]
    taps = [phase.tap for phase in phased.phases]
    depth = [*taps, *(axis.place for axis in contraction.depth if axis.place not in taps)]
    *rows, line = [axis.place for axis in contraction.rows]
    columns, vector, lane = schedule.split(
        loops[contraction.columns[0].place], [None, nest.tile.columns // nest.lanes, nest.lanes]
    )
    along, row = schedule.split(loops[line], [None, nest.tile.rows])
    outer_columns, columns = sampled(schedule, columns, n=2, max_innermost=_MAX_TILES)
    outer, inner = [*_loops(loops, contraction.batch), outer_columns], [columns]
    if nest.peels:
        peel(schedule, along)
    if _has_few_lines(contraction):
        shared, along = sampled(schedule, along, n=2, max_innermost=_MAX_TILES)
    else:
        *rows, last = rows
        shared, within = sampled(schedule, loops[last], n=2, max_innermost=_MAX_TILES)
        inner.append(within)
    outer += [*(loops[place] for place in rows), shared]
    tile = nest.tile.nest(row, vector, lane, lanes=nest.lanes)
    schedule.reorder(*outer, *phases, *inner, along, *tap_phases, *(loops[place] for place in depth), *tile)
    cores = schedule.fuse(*outer) if len(outer) > 1 else outer[0]
    schedule.parallel(cores)
    along_line = [loops[phase.tap] for phase in phased.phases if phase.output == line]
    # With the taps of a line known, all but the tiles at its ends lie in the image.
    for loop in (*phases, *tap_phases, *(along_line if phased.is_bounded else ())):
        schedule.unroll(loop)
    sum_in_registers(schedule, block, tile, start=tap_phases[0])
    mark(schedule, block)
    return cores


def _split_off(schedule: Any, loops: dict[int, Any], place: int, phase: Phase) -> Any:
    loops[place], rest = schedule.split(loops[place], [None, phase.stride])
    return rest


def _loops(loops: dict[int, Any], axes: Sequence[Axis]) -> list[Any]:
    return [loops[axis.place] for axis in axes]
