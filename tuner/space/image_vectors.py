"""Images whose elements come from computed places (resized ones): vectors of neighbouring images.

All images take the same element of theirs, so that a vector of as many images is computed as one image is,
with places and weights that are constants in a line that is written out. Those images are copied in and out
for that, transposed. 4 x 384 of 7 x 7 twice as large, in between pixels, took 207 µs by lines, 60 so; 112 of
26 x 26 131 and 58 (Zen 4).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tuner.addresses import PERIOD_BYTES, element_bytes
from tuner.expressions import loads_of
from tuner.space import index_maps
from tuner.space.axes import Axis
from tuner.space.marks import mark
from tuner.space.registers import ending, fused
from tuner.space.staging import below
from tuner.space.unrolled import is_computed, lies_evenly, may_be_written_out
from tuner.space.vectors import VectorUnit

#: Or whole vectors: by four lanes 20 of 80 x 80 took 82 µs, by lines 97, 60 of 26 x 26 25 and 45 (Zen 5).
_MIN_LANES = 4
#: Of a square that is transposed on the way in or out.
_MIN_ALONG = 4
#: Elements of a copy, which a core's second cache holds beside the other one.
_MAX_PIECE = 1 << 16
#: Images that have room in a first cache where neighbours lie a multiple of 4 KiB apart: by sixteen lanes 32
#: of 64 x 64 took 147 µs, by lines 93 (Zen 5).
_ROOM = 8
#: Elements of an image in a vector on the way in.
_TURNED_IN = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageVectors:
    #: The first of the axes that count images; the cores share these, and those before them.
    images: int
    lanes: int
    #: The dimension of that axis in what is read, and in what is written.
    read: int
    written: int
    is_parallel: bool
    #: Neighbouring axes that count images: of a batch and of channels.
    n_axes: int = 1
    #: Whole images would be too large a copy on the way out: a line of each goes at once. 4 x 40 of 56 x 56
    #: twice as large took 347 to 356 µs by lines of each image, 140 so (Zen 5).
    by_lines: bool = False
    #: The last vector has fewer images, and a nest of its own: 4 x 111 of 46 x 53 twice as large took 641 µs
    #: by four lanes, 373 by sixteen and a last vector of twelve; 205 of 5 x 5 14.6 by lines, 3.0 so (Zen 5).
    ends: bool = False


def image_vectors_of(node: Any, unit: VectorUnit, *, cores: int) -> Iterator[ImageVectors]:
    """`cores`: 0 where there is little to share."""
    *outer, line = (int(axis.dom.extent) for axis in node.iter_vars)
    loads, n_bytes = loads_of(node.body), element_bytes(node.body.buffer)
    if not may_be_written_out(node, line) or not is_computed(node, len(outer)):
        return
    if any(not load.source.same_as(loads[0].source) for load in loads):
        return
    for place in reversed(range(len(outer))):
        read, written = _dimensions(node, loads, place)
        if outer[place] == 1 or read is None or written is None or not lies_evenly(node, place):
            continue
        shapes = [loads[0].source.shape[read + 1 :], node.body.buffer.shape[written + 1 :]]
        image, made = (math.prod(map(int, shape)) for shape in shapes)
        by_lines = place < len(outer) - 1 and max(image, made) * unit.lanes > _MAX_PIECE
        lie_apart = all(size * n_bytes % PERIOD_BYTES for size in (image, made))
        most = unit.lanes if lie_apart else min(unit.lanes, _ROOM)
        image = image if by_lines else max(image, made)
        ways = [
            ImageVectors(
                images=place - others,
                lanes=lanes,
                read=read - others,
                written=written - others,
                is_parallel=cores > 0,
                n_axes=others + 1,
                by_lines=by_lines,
                ends=math.prod(outer[: place + 1]) % lanes > 0,
            )
            for others in range(_n_before(node, loads, place, read, written) + 1)
            if (lanes := _lanes(outer[: place + 1], others + 1, unit, image=image, most=most, cores=cores))
        ]
        if ways and all(map(len, shapes)):
            yield max(ways, key=lambda way: (way.lanes, -way.n_axes))
        return


def _lanes(outer: Sequence[int], n_axes: int, unit: VectorUnit, *, image: int, most: int, cores: int) -> int:
    """As many images of the last `n_axes` of these axes as a vector has of them; 0 where they are too few.

    Where these are all that there are the last vector may have fewer.
    """
    n_images, fewest = math.prod(outer), min(_MIN_LANES, unit.lanes)
    counted = math.prod(outer[-n_axes:])
    lanes = min(most, 1 << counted.bit_length() - 1) if counted == n_images else math.gcd(counted, most)
    while lanes >= fewest and (
        lanes * image > _MAX_PIECE or (cores and not _keeps_busy(n_images, lanes, cores))
    ):
        lanes //= 2
    return lanes if lanes >= fewest else 0


def _keeps_busy(n_images: int, lanes: int, cores: int) -> bool:
    """No core waits for longer than a third of its work: vectors of images take half of what lines take.

    A lesser vector comes last, on one core.
    """
    rounds = -(-(n_images // lanes) // cores) + (n_images % lanes > 0)
    return 3 * rounds * cores * lanes <= 4 * n_images


def _n_before(node: Any, loads: Sequence[Any], place: int, read: int, written: int) -> int:
    """Axes right before this one that count images as it does, in neighbouring dimensions."""
    count = 0
    while (
        place > count
        and lies_evenly(node, place - count - 1)
        and _dimensions(node, loads, place - count - 1) == (read - count - 1, written - count - 1)
    ):
        count += 1
    return count


def write_image_vectors(schedule: Any, block: Any, way: ImageVectors) -> list[Any]:
    """Returns the loops that the cores share. Raises what TVM raises where it cannot."""
    _fuse_images(schedule, block, way.images, way.n_axes)
    loops = list(schedule.get_loops(block))
    images, lanes = ending(schedule, loops[way.images], way.lanes, of_lanes=True)
    inner = loops[way.images + 1 :]
    schedule.reorder(*loops[: way.images], images, *inner, lanes)
    shared = images if way.ends else fused(schedule, [*loops[: way.images], images])
    copied = schedule.cache_read(block, 0, "global")
    stored = schedule.cache_write(block, 0, "global")
    node = schedule.get(block)
    for side, region, at in (("read", node.reads[0], way.read), ("write", node.writes[0], way.written)):
        schedule.transform_layout(block, (side, 0), _turned(region.source.shape, at, way))
    for each, at in ((copied, way.read), (stored, way.written)):
        _fuse_images(schedule, each, at, way.n_axes)
    schedule.compute_at(copied, shared, preserve_unit_loops=True)
    outside = inner[0] if way.by_lines else shared
    schedule.reverse_compute_at(stored, outside, preserve_unit_loops=True)
    schedule.unroll(inner[-1])
    schedule.vectorize(lanes)
    _turn_in(schedule, *_of_copy(schedule, copied, shared, way.read))
    _turn_out(schedule, *_of_copy(schedule, stored, outside, way.written), lanes=way.lanes)
    for each in (copied, stored):
        mark(schedule, each)
    return [shared]


def _turn_in(schedule: Any, image: Any, rest: Any) -> None:
    """Vectors of what lies side by side in an image, of each image one; LLVM transposes them.

    Element by element of all images 4 x 40 of 56 x 56 took 154 µs, 384 of 47 x 47 280; so 140 and 259, with
    vectors of sixteen 186 and 337 (Zen 5).
    """
    width = min(_TURNED_IN, int(schedule.get(rest).extent))
    if width < _MIN_ALONG:
        schedule.reorder(rest, image)
        schedule.vectorize(image)
        return
    rest, within = ending(schedule, rest, width, of_lanes=True)
    schedule.reorder(rest, image, within)
    schedule.unroll(image)
    schedule.vectorize(within)


def _turn_out(schedule: Any, image: Any, rest: Any, *, lanes: int) -> None:
    """Vectors of one element of all images, as many as lie side by side in each; LLVM transposes them.

    Of lines that end with a lesser one as well: 384 of 47 x 47 took 558 µs element by element, 282 so. With
    vectors of what is written 4 x 40 of 56 x 56 took 230 µs, 154 so (Zen 5).
    """
    extent = int(schedule.get(rest).extent)
    even = math.gcd(extent, lanes)
    width = even if even >= _MIN_ALONG else min(lanes, extent)
    if width < _MIN_ALONG:
        return
    rest, within = ending(schedule, rest, width, of_lanes=True)
    schedule.reorder(rest, within, image)
    schedule.unroll(within)
    schedule.vectorize(image)


def _of_copy(schedule: Any, copy: Any, around: Any, at: int) -> tuple[Any, Any]:
    """Its loops over images and over all of one."""
    found = below(schedule, copy, around)
    return found[at], fused(schedule, found[at + 1 :])


def _turned(shape: Sequence[Any], at: int, way: ImageVectors) -> Any:
    """Neighbours along the dimensions from `at` on lie side by side."""
    images = _axes(shape)[at : at + way.n_axes]

    def final(v: dict[int, Any]) -> list[Any]:
        image = index_maps.fused(v, images)
        return [
            *(v[i] for i in range(at)),
            *(v[i] for i in range(at + way.n_axes, len(shape))),
            image,
        ]

    return index_maps.index_map(range(len(shape)), final)


def _fuse_images(schedule: Any, block: Any, at: int, n_axes: int) -> None:
    """One axis of the block counts what `n_axes` did."""
    if n_axes == 1:
        return
    axes = _axes([axis.dom.extent for axis in schedule.get(block).iter_vars])
    images, others = axes[at : at + n_axes], [[axis] for axis in axes]
    parts = [*others[:at], images, *others[at + n_axes :]]
    schedule.transform_block_layout(block, index_maps.fusing(range(len(axes)), parts))


def _axes(extents: Sequence[Any]) -> list[Axis]:
    return [Axis(place=place, extent=int(extent)) for place, extent in enumerate(extents)]


def _dimensions(node: Any, loads: Sequence[Any], place: int) -> tuple[int | None, int | None]:
    """Where the axis alone is an index of all that is read, and of what is written."""
    read, *others = {_dimension(node, load.indices, place) for load in loads}
    return None if others else read, _dimension(node, node.body.indices, place)


def _dimension(node: Any, indices: Sequence[Any], place: int) -> int | None:
    var = node.iter_vars[place].var
    return next((at for at, index in enumerate(indices) if index.same_as(var)), None)
