"""Register-tiled, packed, padded forms of a contraction, one for each plan that TVM can write.

A block that is no contraction, or that something has scheduled before, is left alone.
"""

import math
from dataclasses import replace
from functools import partial
from typing import Any

from tuner.space.contraction import Contraction, grouped_axis
from tuner.space.dots import dots_of, write_dots
from tuner.space.fitting_tiles import whole_tiles
from tuner.space.gram import across
from tuner.space.index_maps import index_map, simplify_places
from tuner.space.offering import is_untouched, written
from tuner.space.padding import padding_of
from tuner.space.phase_nest import phase_nests, write_phases
from tuner.space.phases import absorb_dilation, phased_of
from tuner.space.planes import in_planes
from tuner.space.plans import (
    Padded,
    Plan,
    Staging,
    ending_plans,
    is_worth_ending,
    narrow_plans,
    plans,
    promise,
    ready_plans,
    sliding_plans,
)
from tuner.space.result_lines import result_lines_of, write_result_lines
from tuner.space.split_streams import split_streams_of, write_split_stream
from tuner.space.streams import streams_of, write_stream
from tuner.space.tiling import largest_taken, tile
from tuner.space.vectors import MIN_READY, VectorUnit, fitting_unit, half_unit, ready_unit, vector_unit
from tuner.space.window_nest import write_window
from tuner.space.windows import windows_of
from tuner.trace import TVM_ERRORS

#: Parts of a vector that a group's columns fill: up to the first stock's tiles are better than ours but for
#: rows that share scalars, from the second on copies of operands pay.
_THIN, _HALF = 0.25, 0.5
#: Of dot products. Eight rows of 2000 x 2048 took 738 µs so, 1268 by tiles that copy, five 693 and 1063.
_FEW_ROWS = 4

#: With the lanes of their vectors.
_Plans = list[tuple[int, Plan]]


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
    contraction = Contraction.of(normal.get(normal.get_sblock(name)))
    if contraction is None:
        return []
    forms = _of_itself if contraction.of_itself else _of_two
    return forms(normal, name, contraction, target)


def _of_two(normal: Any, name: str, contraction: Contraction, target: Any) -> list[Any]:
    """Schedules of a product of two operands."""
    contraction = contraction.by_images() or contraction
    looked = normal.copy()  # each question becomes part of a trace
    contraction = replace(contraction, taken=largest_taken(looked, looked.get_sblock(name), contraction))
    unit = vector_unit(target, contraction.dtype)
    straight = fitting_unit(unit, contraction.extents[1])
    cores = int(target.attrs.get("num-cores", 1))
    padded = _padded(normal, name, contraction)
    planes = _in_planes(normal, name, contraction, unit, cores)
    filled = _filled_by_group(contraction, unit)
    if filled <= _THIN:
        return planes or written(normal, name, _tiles(*_sliding(contraction, straight, padded), cores=cores))
    found = _plans(contraction, straight, padded=padded)
    if planes or filled < _HALF:
        found = [(lanes, plan) for lanes, plan in found if plan.scalars is plan.vectors is Staging.NONE]
    if _is_read_once(contraction, straight, cores):
        found = [(lanes, plan) for lanes, plan in found if plan.vectors is Staging.NONE]
    lines, ended = _by_lines(contraction, straight, found, padded)
    forms = _tiles(contraction, _beside(ended, found), cores=cores)
    forms += _tiles(lines, ended, cores=cores)
    forms += _tiles(*_sliding(contraction, straight, padded), cores=cores)
    forms += _tiles(*_ending(contraction, unit, padded, cores), cores=cores)
    node = normal.get(normal.get_sblock(name))
    turned = Contraction.turned(node) if filled >= _HALF and not planes else None
    if turned is not None and _is_worth_turning(contraction, turned, straight, unit, found):
        n_tiles = 2 if turned.scalars.slides else 1
        padded = _padded(normal, name, turned)
        found = _plans(turned, unit, n_tiles=n_tiles, padded=padded)
        forms += _tiles(turned, found, cores=cores)
        forms += _tiles(*_by_lines(turned, unit, found, padded), cores=cores)
    return planes + written(normal, name, forms + _without_tiles(contraction, unit, cores))


def _in_planes(normal: Any, name: str, contraction: Contraction, unit: VectorUnit, cores: int) -> list[Any]:
    """Schedules of a window of few filters in planes: filter by filter, or else by tiles in place."""
    laid = in_planes(normal, name, contraction, unit, cores=cores)
    if laid is None:
        return []
    windows = windows_of(laid.schedule, laid.schedule.get_sblock(name), unit)
    by_filters = [
        partial(write_window, window=window) for window in windows if window.stride == 1 and window.lanes > 1
    ]
    if by_filters:
        return written(laid.schedule, name, by_filters)
    padded = _padded(laid.schedule, name, laid.contraction)
    for each in filter(None, (laid.contraction, laid.contraction.by_column_lines())):
        found = _plans(each, unit, n_tiles=1, padded=padded)
        in_place = [(lanes, plan) for lanes, plan in found if plan.vectors is Staging.NONE]
        if in_place:
            return written(laid.schedule, name, _tiles(each, in_place, cores=cores))
    ended = _ending(laid.contraction, unit, padded, cores)
    return written(laid.schedule, name, _tiles(*ended, cores=cores))


def _by_lines(
    contraction: Contraction, unit: VectorUnit, found: _Plans, padded: Padded
) -> tuple[Contraction, _Plans]:
    """A sliding window whose lines no good tile divides: tiles that end with a line, in place of a copy."""
    lines = contraction.by_lines() if contraction.scalars.repeats else None
    if lines is None:
        return contraction, []
    ended = [(lanes, plan) for lanes, plan in _plans(lines, unit, padded=padded) if plan.peels]
    in_place = [(lanes, plan) for lanes, plan in found if plan.scalars is Staging.NONE]
    best, other = (
        max((promise(each, unit, *plan) for plan in those), default=0.0)
        for each, those in ((lines, ended), (contraction, in_place))
    )
    if not is_worth_ending(contraction, unit, best, other):
        return lines, []
    # Columns that each line copied for itself would be copied again for every one.
    return lines, [(lanes, plan) for lanes, plan in ended if plan.vectors is not Staging.TILE]


def _beside(ended: _Plans, found: _Plans) -> _Plans:
    """Of those with whole tiles in place the best alone, where lesser last ones promise more."""
    if not ended:
        return found
    _, *others = dict.fromkeys(plan.tile for _, plan in found if plan.scalars is Staging.NONE) or (None,)
    return [(lanes, plan) for lanes, plan in found if plan.tile not in others]


def _sliding(contraction: Contraction, unit: VectorUnit, padded: Padded) -> tuple[Contraction, _Plans]:
    """Tiles whose rows share scalars; that end with a line where none divides it."""
    ready = ready_unit(unit, contraction.run)
    for each in (contraction, contraction.by_lines()):
        if each is None:
            continue
        found = [
            (part.lanes, plan)
            for part in (unit, ready)
            if part is not None
            for plan in sliding_plans(each, part, padded=padded)
        ]
        if found:
            return each, found
    return contraction, []


def _ending(
    contraction: Contraction, unit: VectorUnit, padded: Padded, cores: int
) -> tuple[Contraction, _Plans]:
    """Tiles of whole vectors and a lesser one."""
    for each in (contraction, contraction.by_lines(), contraction.by_column_lines()):
        ended = () if each is None else ending_plans(each, unit, padded=padded, cores=cores)
        if each is not None and ended:
            return each, [(unit.lanes, plan) for plan in ended]
    return contraction, []


def _of_itself(normal: Any, name: str, contraction: Contraction, target: Any) -> list[Any]:
    """Schedules of an operand's product with itself; none of its copies for one side alone can be written."""
    unit = vector_unit(target, contraction.dtype)
    cores = int(target.attrs.get("num-cores", 1))
    found = written(normal, name, _without_tiles(contraction, unit, cores))
    if contraction.columns[-1].place not in contraction.vectors.contiguous:
        laid = across(normal, name, contraction)
        if laid is None:
            return found
        normal = laid
        contraction = Contraction.of(laid.get(laid.get_sblock(name))) or contraction
    fitting = fitting_unit(unit, contraction.extents[1])
    in_place = [
        (lanes, plan)
        for lanes, plan in _plans(contraction, fitting, padded=Padded())
        if plan.scalars is plan.vectors is Staging.NONE
    ]
    return found + written(normal, name, _tiles(contraction, in_place, cores=cores))


def _without_tiles(contraction: Contraction, unit: VectorUnit, cores: int) -> list[Any]:
    """Dot products, streams, whole or split, and lines of results, where there are any."""
    dots = [
        partial(write_dots, contraction=contraction, dots=dots, lanes=unit.lanes)
        for dots in dots_of(contraction, unit)
    ]
    streams = [
        partial(write_stream, contraction=contraction, stream=stream)
        for stream in streams_of(contraction, unit, cores=cores)
    ]
    split = [
        partial(write_split_stream, contraction=contraction, stream=stream)
        for stream in split_streams_of(contraction, cores=cores)
    ]
    lines = [
        partial(write_result_lines, contraction=contraction, lines=lines)
        for lines in result_lines_of(contraction, unit)
    ]
    return dots + streams + split + lines


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


def _is_read_once(contraction: Contraction, unit: VectorUnit, cores: int) -> bool:
    """Elements of its vectors are used for so few rows that a copy of them costs more than it saves.

    One row of 1009 x 1009, weights along the depth: 446 µs by tiles that copy, 42 as dot products; along the
    columns 450 and 54; two rows of 2003 x 512 315 and 47 (Zen 3, two cores).
    """
    if streams_of(contraction, unit, cores=cores):
        return True
    return contraction.extents[0] <= _FEW_ROWS and bool(dots_of(contraction, unit))


def _filled_by_group(contraction: Contraction, unit: VectorUnit) -> float:
    """The part of a vector that a group of a grouped image fills with its columns; 1 of others.

    Thin ones are stock's as well, whose vectors go across groups, or whose unrolled taps share broadcasts:
    28 x 28 pixels, 32 groups, 4 to 4 channels, 46 to 71 µs for 79 in vectors of four. Of 16 groups of five
    and six channels 57 to 72 and 66, as vectors of as many 55 and 63, and far more where anything is copied
    (Zen 4). Pairs whose rows share scalars, four groups of 21 x 22, 24 to two: 54 µs for 132; of 57 x 56,
    eight of three to two, strided, 40 for 32, but 45 for 90 in the median of random programs (Zen 3).
    """
    groups = math.prod(axis.extent for axis in contraction.batch)
    is_grouped = groups > 1 and contraction.scalars.slides
    return min(1.0, contraction.extents[1] / unit.lanes) if is_grouped else 1.0


def _padded(schedule: Any, name: str, contraction: Contraction) -> Padded:
    block = schedule.get_sblock(name)
    buffers = [
        schedule.get(block).reads[side.read].source for side in (contraction.scalars, contraction.vectors)
    ]
    return Padded(*(padding_of(schedule, block, buffer) is not None for buffer in buffers))


def _is_worth_turning(
    straight: Contraction, turned: Contraction, straight_unit: VectorUnit, unit: VectorUnit, found: _Plans
) -> bool:
    """Straight, its vectors would have to be copied again and again, or padded; turned, they need not.

    A window that is read where it lies is turned as well, if that leaves no more than half of a vector empty
    and it either moves along the vectors or lies in lesser ones.
    """
    if straight.vectors.repeats:
        in_place = [lanes for lanes, plan in found if plan.vectors is Staging.NONE]
        is_full = not straight.vectors.slides and unit.lanes in in_place
        return not in_place or (2 * turned.extents[1] >= unit.lanes and not is_full)
    return bool(whole_tiles(turned, unit, count=1)) and not whole_tiles(straight, straight_unit, count=1)


def _tiles(contraction: Contraction, found: _Plans, *, cores: int) -> list[Any]:
    return [
        partial(tile, contraction=contraction, plan=plan, lanes=lanes, cores=cores) for lanes, plan in found
    ]


def _plans(contraction: Contraction, unit: VectorUnit, *, n_tiles: int = 2, padded: Padded) -> _Plans:
    """Whole vectors, and narrower ones where those leave much empty or do not lie ready."""
    found = [(unit.lanes, plan) for plan in plans(contraction, unit, n_tiles=n_tiles, padded=padded)]
    half = half_unit(unit)
    if half is not None:
        found += [(half.lanes, plan) for plan in narrow_plans(contraction, unit, half)]
    # An operand's product with itself has no padded columns to compare with.
    ready = ready_unit(unit, contraction.run, least=0.0 if contraction.of_itself else MIN_READY)
    if ready is not None:
        found += [(ready.lanes, plan) for plan in ready_plans(contraction, ready, padded=padded)]
    found = list(dict.fromkeys(found))
    in_place = [(lanes, plan) for lanes, plan in found if plan.vectors is Staging.NONE]
    # A copy of a window repeats its elements: 8 images of 14 x 14 took 11 ms with one, 0.58 without (Zen 4).
    return in_place if contraction.vectors.repeats and in_place else found


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
        simplify_places(result, block)
    except TVM_ERRORS:
        return None
    return result


def _only_moves(schedule: Any, producer: Any) -> bool:
    """It has an operand in another order, for one reader: a plan that copies can do that as well.

    Of what the reader reads as well it makes another operand (see tuner.space.gram).
    """
    node = schedule.get(producer)
    value: Any = getattr(node.body, "value", None)
    consumers = schedule.get_consumers(producer)
    if node.init is not None or type(value).__name__ not in ("BufferLoad", "TensorLoad"):
        return False
    is_alone = len(consumers) == 1
    return is_alone and not any(
        part.source.same_as(value.source) for part in schedule.get(consumers[0]).reads
    )


def _split_axis(schedule: Any, block: Any, split: int, size: int) -> None:
    """Axis `split` becomes two: its groups, which come first, and the place within a group."""
    places = range(len(schedule.get(block).iter_vars))

    def final(v: dict[int, Any]) -> list[Any]:
        return [v[split] // size, *(v[place] % size if place == split else v[place] for place in places)]

    schedule.transform_block_layout(block, index_map(places, final))
