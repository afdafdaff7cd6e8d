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

from tuner.expressions import loads_of
from tuner.space.index_maps import index_map
from tuner.space.normal_form import STRUCTURE, TILED
from tuner.space.registers import fused
from tuner.space.staging import below
from tuner.space.unrolled import is_computed, lies_evenly, may_be_written_out
from tuner.space.vectors import VectorUnit

#: Or whole vectors: with four lanes 20 of 80 x 80 took 542 µs, by lines 206.
_MIN_LANES = 8
#: Of a square that is transposed on the way out.
_MIN_ALONG = 4
#: Elements of a copy, which a core's second cache holds beside the other one.
_MAX_PIECE = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageVectors:
    #: The axis that counts images; the cores share it, and those before it.
    images: int
    lanes: int
    #: Dimensions of that axis in what is read, and in what is written.
    read: int
    written: int
    is_parallel: bool


def image_vectors_of(node: Any, unit: VectorUnit, *, enough: int) -> Iterator[ImageVectors]:
    """`enough`: pieces that keep the cores busy; 0: for one core."""
    *outer, line = (int(axis.dom.extent) for axis in node.iter_vars)
    loads = loads_of(node.body)
    if not may_be_written_out(node, line) or not is_computed(node, len(outer)):
        return
    if any(not load.source.same_as(loads[0].source) for load in loads):
        return
    for place, extent in reversed(list(enumerate(outer))):
        read, *others = {_dimension(node, load.indices, place) for load in loads}
        written = _dimension(node, node.body.indices, place)
        if extent == 1 or others or read is None or written is None or not lies_evenly(node, place):
            continue
        shapes = [loads[0].source.shape[read + 1 :], node.body.buffer.shape[written + 1 :]]
        image = max(math.prod(map(int, shape)) for shape in shapes)
        lanes, fewest = math.gcd(extent, unit.lanes), min(_MIN_LANES, unit.lanes)
        while lanes >= fewest and (
            lanes * image > _MAX_PIECE or math.prod(outer[: place + 1]) // lanes < enough
        ):
            lanes //= 2
        if lanes >= fewest and all(map(len, shapes)):
            yield ImageVectors(images=place, lanes=lanes, read=read, written=written, is_parallel=enough > 0)
        return


def write_image_vectors(schedule: Any, block: Any, way: ImageVectors) -> list[Any]:
    """Returns the loops that the cores share. Raises what TVM raises where it cannot."""
    loops = list(schedule.get_loops(block))
    images, lanes = schedule.split(loops[way.images], [None, way.lanes])
    inner = loops[way.images + 1 :]
    schedule.reorder(*loops[: way.images], images, *inner, lanes)
    shared = fused(schedule, [*loops[: way.images], images])
    copied = schedule.cache_read(block, 0, "global")
    stored = schedule.cache_write(block, 0, "global")
    node = schedule.get(block)
    for side, region, at in (("read", node.reads[0], way.read), ("write", node.writes[0], way.written)):
        schedule.transform_layout(block, (side, 0), _turned(len(region.source.shape), at, way.lanes))
    schedule.compute_at(copied, shared, preserve_unit_loops=True)
    schedule.reverse_compute_at(stored, shared, preserve_unit_loops=True)
    schedule.unroll(inner[-1])
    schedule.vectorize(lanes)
    image, rest = _of_copy(schedule, copied, shared, way.read)
    schedule.reorder(rest, image)
    schedule.vectorize(image)
    image, rest = _of_copy(schedule, stored, shared, way.written)
    along = math.gcd(int(schedule.get(rest).extent), way.lanes)
    if along >= _MIN_ALONG:
        rest, within = schedule.split(rest, [None, along])
        schedule.reorder(rest, image, within)
        schedule.unroll(image)
        schedule.vectorize(within)
    for each in (copied, stored):
        schedule.annotate(each, TILED, STRUCTURE)
    return [shared]


def _of_copy(schedule: Any, copy: Any, shared: Any, at: int) -> tuple[Any, Any]:
    """Its loops over images and over all of one."""
    found = below(schedule, copy, shared)
    return found[at], fused(schedule, found[at + 1 :])


def _turned(n: int, at: int, lanes: int) -> Any:
    """Neighbours along dimension `at` lie side by side."""
    return index_map(
        range(n),
        lambda v: [
            *(v[i] for i in range(at)),
            v[at] // lanes,
            *(v[i] for i in range(at + 1, n)),
            v[at] % lanes,
        ],
    )


def _dimension(node: Any, indices: Sequence[Any], place: int) -> int | None:
    """Where the axis alone is an index."""
    var = node.iter_vars[place].var
    return next((at for at, index in enumerate(indices) if index.same_as(var)), None)
