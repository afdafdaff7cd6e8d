"""Few filters over an image whose channels lie side by side: the image is laid out in planes first.

Vectors of filters would be mostly empty, and vectors of pixels lie a pixel's channels apart. In a copy with
channels before lines (in squares that LLVM transposes in registers) pixels lie side by side, and the window
moves along them as it does where images come with channels first. The copy costs a fraction of what it saves:
64 x 64, 64 to three, took 260 µs by vectors of three filters, 450 to 660 most programs, and 142 in planes;
three groups of 35 x 80, nine to two, 83 and 46 (Zen 3, two cores).
"""

from dataclasses import dataclass, replace
from typing import Any

from tuner.addresses import LINE_BYTES, element_bytes
from tuner.expressions import loads_of
from tuner.space.contraction import Contraction
from tuner.space.index_maps import index_map
from tuner.space.injective import Squares, injectives_of, write_injective
from tuner.space.padding import padding_of
from tuner.space.plans import Plan
from tuner.space.tiling import tile
from tuner.space.vectors import VectorUnit
from tuner.trace import TVM_ERRORS


@dataclass(frozen=True, slots=True, kw_only=True)
class InPlanes:
    schedule: Any
    #: Its columns are pixels.
    contraction: Contraction
    #: The block that lays the image out.
    copy: str


def in_planes(schedule: Any, name: str, contraction: Contraction, unit: VectorUnit) -> InPlanes | None:
    """With a copy of the image in planes; None where filters are enough, or channels do not lie so."""
    rows, columns, _ = contraction.extents
    image, filters = (contraction.scalars, columns)
    if not image.repeats:  # of one filter pixels are the results' vectors as well
        image, filters = contraction.vectors, rows
    channels = [axis for axis in contraction.depth if axis.place in image.contiguous]
    if 2 * filters > unit.lanes or not image.repeats or not channels or len(channels) < len(image.contiguous):
        return None
    laid = schedule.copy()
    try:
        copy = _lay_out(laid, laid.get_sblock(name), image.read)
    except TVM_ERRORS:
        return None
    if copy is None:
        return None
    node = laid.get(laid.get_sblock(name))
    found = [each for each in (Contraction.of(node), Contraction.turned(node)) if each is not None]
    of_pixels = next((each for each in found if each.vectors.repeats and not each.scalars.repeats), None)
    if of_pixels is None:
        return None
    # A plane stays near while the window moves over it.
    depth = (*channels, *(axis for axis in of_pixels.depth if axis not in channels))
    return InPlanes(schedule=laid, contraction=replace(of_pixels, depth=depth), copy=copy)


def write_in_planes(
    schedule: Any,
    block: Any,
    *,
    laid: InPlanes,
    contraction: Contraction,
    plan: Plan,
    unit: VectorUnit,
    lanes: int,
    cores: int,
) -> None:
    """Raises what TVM raises where it cannot."""
    tile(schedule, block, contraction, plan, lanes=lanes, cores=cores)
    copy = schedule.get_sblock(laid.copy)
    squares = [way for way in injectives_of(schedule, copy, unit, cores=cores) if isinstance(way, Squares)]
    if squares:
        write_injective(schedule, copy, max(squares, key=lambda way: way.spreads_across))
    buffer = schedule.get(copy).writes[0].source
    line = max(1, LINE_BYTES // element_bytes(buffer))
    # Planes of 64 x 64 would share the same sets of a cache: 232 µs in place of 142.
    schedule.storage_align(copy, 0, 1, 2 * line, line)


def _lay_out(schedule: Any, block: Any, place: int) -> str | None:
    """The name of the block that copies; None where what makes the image must leave it as it is."""
    image = schedule.get(block).reads[place].source
    padding = padding_of(schedule, block, image)
    if padding is not None and not (_is_between(schedule, image) and _keeps_places(schedule.get(padding))):
        return None
    n = len(image.shape)
    planes = index_map(range(n), lambda v: [v[0], v[n - 1], *(v[at] for at in range(1, n - 1))])
    reader, at = (block, place) if padding is None else (padding, 0)
    copy = schedule.cache_read(reader, at, "global")
    schedule.transform_layout(copy, ("write", 0), planes)
    if padding is not None:
        schedule.transform_layout(padding, ("write", 0), planes)
        schedule.transform_block_layout(padding, planes)
    return str(schedule.get(copy).name_hint)


def _is_between(schedule: Any, buffer: Any) -> bool:
    """It is no result of the function, whose layout is its caller's."""
    root = schedule.get(schedule.get_sblock("root"))
    return any(buffer.same_as(each) for each in root.alloc_buffers)


def _keeps_places(node: Any) -> bool:
    """Its axes are its buffer's, in order, and what it reads has as many, the last of them the same."""
    loads = loads_of(node.body)
    if len(loads) != 1 or len(loads[0].indices) != len(node.iter_vars):
        return False
    stored = node.body.indices
    ordered = len(stored) == len(node.iter_vars) and all(
        index.same_as(axis.var) for index, axis in zip(stored, node.iter_vars, strict=True)
    )
    return ordered and bool(loads[0].indices[-1].same_as(node.iter_vars[-1].var))
