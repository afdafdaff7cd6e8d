"""Register-tiled, packed, padded forms of a contraction, one for each plan that TVM can write.

A block that is no contraction, or that something has scheduled before, is left alone.
"""

import math
from collections.abc import Iterable
from functools import partial
from typing import Any

from tuner.space.contraction import Contraction, grouped_axis, needs_simplifying
from tuner.space.dots import dots_of, write_dots
from tuner.space.index_maps import index_map
from tuner.space.offering import is_untouched, written
from tuner.space.padding import padding_of
from tuner.space.phase_nest import phase_nests, write_phases
from tuner.space.phases import absorb_dilation, phased_of
from tuner.space.plans import Plan, narrow_plans, plans, whole_tiles
from tuner.space.streams import streams_of, write_stream
from tuner.space.tiling import tile
from tuner.space.vectors import VectorUnit, fitting_unit, half_unit, vector_unit
from tuner.trace import TVM_ERRORS


def tiled(schedule: Any, block: Any, target: Any) -> list[Any]:
    """A schedule for each plan that fits; none where the block is no contraction."""
    name = schedule.get(block).name_hint
    if not is_untouched(schedule, block):
        return []
    normal = _normalised(schedule, name)
    if normal is None:
        return []
    by_phases = _in_phases(normal, name, target)
    if by_phases:  # whatever multiplies the zeros is left to stock
        return by_phases
    node = normal.get(normal.get_sblock(name))
    contraction = Contraction.of(node)
    if contraction is None:
        return []
    unit = vector_unit(target, contraction.dtype)
    if _is_of_thin_groups(contraction, unit):
        return []
    straight = fitting_unit(unit, contraction.extents[1])
    cores = int(target.attrs.get("num-cores", 1))
    is_padded = _is_padded(normal, name, contraction)
    forms = _tiles(contraction, plans(contraction, straight, is_padded=is_padded), straight, cores=cores)
    half = half_unit(straight)
    if half is not None:
        forms += _tiles(contraction, narrow_plans(contraction, straight, half), half, cores=cores)
    turned = Contraction.turned(node)
    if turned is not None and _is_worth_turning(contraction, turned, straight, unit):
        n_tiles = 2 if turned.scalars.slides else 1
        is_padded = _is_padded(normal, name, turned)
        found = plans(turned, unit, n_tiles=n_tiles, is_padded=is_padded)
        forms += _tiles(turned, found, unit, cores=cores)
    forms += [
        partial(write_dots, contraction=contraction, dots=dots, lanes=unit.lanes)
        for dots in dots_of(contraction, unit)
    ]
    forms += [
        partial(write_stream, contraction=contraction, stream=stream)
        for stream in streams_of(contraction, unit)
    ]
    return written(normal, name, forms)


def _in_phases(schedule: Any, name: str, target: Any) -> list[Any]:
    """Schedules of a transposed convolution that multiply no zeros; none of other contractions."""
    absorbed = schedule.copy()
    try:
        absorb_dilation(absorbed, absorbed.get_sblock(name))
    except TVM_ERRORS:
        return []
    phased = phased_of(absorbed.get(absorbed.get_sblock(name)))
    if phased is None:
        return []
    nests = phase_nests(phased, vector_unit(target, phased.contraction.dtype))
    return written(absorbed, name, [partial(write_phases, phased=phased, nest=nest) for nest in nests])


def _is_of_thin_groups(contraction: Contraction, unit: VectorUnit) -> bool:
    """Windows of a grouped image whose groups fill less than half a vector: stock's tiles are better.

    A vector of theirs goes across groups, or all taps are unrolled and share broadcasts. 28 x 28 pixels of 32
    groups, 4 to 4 channels: 46 to 71 µs by stock's, 79 in vectors of four, 180 padded (Zen 4).
    """
    groups = math.prod(axis.extent for axis in contraction.batch)
    return groups > 1 and contraction.scalars.slides and 2 * contraction.extents[1] < unit.lanes


def _is_padded(schedule: Any, name: str, contraction: Contraction) -> bool:
    block = schedule.get_sblock(name)
    buffer = schedule.get(block).reads[contraction.scalars.read].source
    return padding_of(schedule, block, buffer) is not None


def _is_worth_turning(
    straight: Contraction, turned: Contraction, straight_unit: VectorUnit, unit: VectorUnit
) -> bool:
    """Straight, its vectors would have to be copied again and again, or padded; turned, they need not."""
    if straight.vectors.slides:
        return True
    return bool(whole_tiles(turned, unit, count=1)) and not whole_tiles(straight, straight_unit, count=1)


def _tiles(contraction: Contraction, found: Iterable[Plan], unit: VectorUnit, *, cores: int) -> list[Any]:
    write = partial(tile, contraction=contraction, lanes=unit.lanes, cores=cores)
    return [partial(write, plan=plan) for plan in found]


def _normalised(schedule: Any, name: str) -> Any | None:
    """A copy: operands are read where they lie, indices are simplified, groups are an axis of their own."""
    result = schedule.copy()
    block = result.get_sblock(name)
    try:
        for producer in result.get_producers(block):
            if _only_moves(result, producer):
                result.compute_inline(producer)
        group = grouped_axis(result.get(block))
        if group is not None:
            _split_axis(result, block, *group)
        if needs_simplifying(result.get(block)):
            _same_axes(result, block)
    except TVM_ERRORS:
        return None
    return result


def _only_moves(schedule: Any, producer: Any) -> bool:
    """It has an operand in another order, for one reader: a plan that copies can do that as well."""
    node = schedule.get(producer)
    value = getattr(node.body, "value", None)
    moves = node.init is None and type(value).__name__ in ("BufferLoad", "TensorLoad")
    return moves and len(schedule.get_consumers(producer)) == 1


def _same_axes(schedule: Any, block: Any) -> None:
    """A block layout that changes nothing makes TVM simplify the indices."""
    places = range(len(schedule.get(block).iter_vars))
    schedule.transform_block_layout(block, index_map(places, lambda v: [v[place] for place in places]))


def _split_axis(schedule: Any, block: Any, split: int, size: int) -> None:
    """Axis `split` becomes two: its groups, which come first, and the place within a group."""
    places = range(len(schedule.get(block).iter_vars))

    def final(v: dict[int, Any]) -> list[Any]:
        return [v[split] // size, *(v[place] % size if place == split else v[place] for place in places)]

    schedule.transform_block_layout(block, index_map(places, final))
