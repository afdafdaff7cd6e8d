"""Few filters over an image whose channels lie side by side: image and results are laid out in planes.

Vectors of filters would be mostly empty, and vectors of pixels lie a pixel's channels apart. In a copy with
channels before lines (in squares that LLVM transposes in registers) pixels lie side by side, and the window
moves along them as it does where images come with channels first. Its results are planes as well, which go
to their place in such squares, with what follows them. Both copies cost a fraction of what they save: 64 x
64, 64 to three, took 260 µs by vectors of three filters, 450 to 660 most programs, and 142 in planes; three
groups of 35 x 80, nine to two, 83 and 46 (Zen 3, two cores); 32 groups of 28 x 28, four to four, 57 and 36
(Zen 5).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tuner.addresses import LINE_BYTES, element_bytes
from tuner.expressions import loads_of, places_in
from tuner.space.contraction import Contraction
from tuner.space.index_maps import index_map
from tuner.space.injective import Squares, injectives_of, write_injective
from tuner.space.padding import padding_of
from tuner.space.vectors import VectorUnit
from tuner.trace import TVM_ERRORS

#: Elements of the squares in which image and results are transposed: of 16 x 16 eight groups of 9 x 48, eight
#: channels to two, took 9.7 µs, of 16 x 4 8.4 (Zen 5).
_SQUARE = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class InPlanes:
    #: What lays out the image and takes the results to their place is scheduled in it.
    schedule: Any
    #: Its columns are pixels.
    contraction: Contraction


def in_planes(
    schedule: Any, name: str, contraction: Contraction, unit: VectorUnit, *, cores: int
) -> InPlanes | None:
    """None where filters are enough, or channels do not lie so."""
    rows, columns, _ = contraction.extents
    image, filters = (contraction.scalars, columns)
    if not image.repeats:  # of one filter pixels are the results' vectors as well
        image, filters = contraction.vectors, rows
    channels = [axis.place for axis in contraction.depth if axis.place in image.contiguous]
    if 2 * filters > unit.lanes or not image.repeats or not channels or len(channels) < len(image.contiguous):
        return None
    laid = schedule.copy()
    try:
        copy = _lay_out(laid, laid.get_sblock(name), image.read)
        if copy is None:
            return None
        copies = [copy]
        if image is contraction.scalars and contraction.writes_rows:
            copies.append(_take_out(laid, name))
        for each in copies:
            _transpose(laid, laid.get_sblock(each), unit, cores=cores)
        order = _put_pixels_last(laid, laid.get_sblock(name))
    except TVM_ERRORS:
        return None
    node = laid.get(laid.get_sblock(name))
    found = [each for each in (Contraction.of(node), Contraction.turned(node)) if each is not None]
    of_pixels = next((each for each in found if each.vectors.repeats and not each.scalars.repeats), None)
    if of_pixels is None:
        return None
    # A plane stays near while the window moves over it.
    depth = sorted(of_pixels.depth, key=lambda axis: order[axis.place] not in channels)
    return InPlanes(schedule=laid, contraction=replace(of_pixels, depth=tuple(depth)))


def _lay_out(schedule: Any, block: Any, place: int) -> str | None:
    """The name of the block that copies; None where what makes the image must leave it as it is."""
    image = schedule.get(block).reads[place].source
    padding = padding_of(schedule, block, image)
    if padding is not None and not (_is_between(schedule, image) and _keeps_places(schedule.get(padding))):
        return None
    planes = _planes(len(image.shape))
    reader, at = (block, place) if padding is None else (padding, 0)
    copy = schedule.cache_read(reader, at, "global")
    for each in (copy,) if padding is None else (copy, padding):
        schedule.transform_layout(each, ("write", 0), planes)
        schedule.transform_block_layout(each, planes)
    # Planes of 64 x 64 would share the same sets of a cache: 232 µs in place of 142.
    line = max(1, LINE_BYTES // element_bytes(image))
    schedule.storage_align(copy, 0, 1, 2 * line, line)
    return str(schedule.get(copy).name_hint)


def _take_out(schedule: Any, name: str) -> str:
    """The name of the block that takes the results from planes to where they belong."""
    block = schedule.get_sblock(name)
    results = schedule.get(block).writes[0].source
    reader = _reader(schedule, block, results)
    taking = schedule.cache_write(block, 0, "global") if reader is None else reader
    schedule.transform_layout(block, ("write", 0), _planes(len(results.shape)))
    return str(schedule.get(taking).name_hint)


def _reader(schedule: Any, block: Any, results: Any) -> Any | None:
    """What follows the block element by element: bias, residual, activation; none beside a caller."""
    readers = schedule.get_consumers(block)
    is_alone = len(readers) == 1 and len(schedule.get_producers(readers[0])) == 1
    if not is_alone or not _is_between(schedule, results):
        return None
    node = schedule.get(readers[0])
    loads = [load for load in loads_of(node.body) if load.source.same_as(results)]
    follows = node.init is None and all(_are_axes(node, load.indices) for load in loads)
    return readers[0] if follows else None


def _transpose(schedule: Any, block: Any, unit: VectorUnit, *, cores: int) -> None:
    squares = [way for way in injectives_of(schedule, block, unit, cores=cores) if isinstance(way, Squares)]
    if squares:
        write_injective(schedule, block, max(squares, key=_preference))


def _preference(way: Squares) -> tuple[int, ...]:
    is_plain = way.lanes & (way.lanes - 1) == 0  # LLVM takes other vectors apart
    return is_plain, -abs(way.lanes * way.rows - _SQUARE), way.spreads_across


def _put_pixels_last(schedule: Any, block: Any) -> list[int]:
    """The block's axes come as they stand in what it writes; the places where they stood before."""
    node = schedule.get(block)
    written = [place for index in node.body.indices for place in sorted(places_in(node, [index]))]
    order = list(dict.fromkeys([*written, *range(len(node.iter_vars))]))
    schedule.transform_block_layout(block, index_map(range(len(order)), lambda v: [v[at] for at in order]))
    return order


def _planes(n: int) -> Any:
    """Of an image or a block with channels last."""
    return index_map(range(n), lambda v: [v[0], v[n - 1], *(v[at] for at in range(1, n - 1))])


def _is_between(schedule: Any, buffer: Any) -> bool:
    """It is no result of the function, whose layout is its caller's."""
    root = schedule.get(schedule.get_sblock("root"))
    return any(buffer.same_as(each) for each in root.alloc_buffers)


def _keeps_places(node: Any) -> bool:
    """Its axes are its buffer's, in order, and what it reads has as many, the last of them the same."""
    loads = loads_of(node.body)
    if len(loads) != 1 or len(loads[0].indices) != len(node.iter_vars):
        return False
    return _are_axes(node, node.body.indices) and bool(loads[0].indices[-1].same_as(node.iter_vars[-1].var))


def _are_axes(node: Any, indices: Sequence[Any]) -> bool:
    """All axes of the block, in order."""
    axes = node.iter_vars
    return len(indices) == len(axes) and all(
        index.same_as(axis.var) for index, axis in zip(indices, axes, strict=True)
    )
