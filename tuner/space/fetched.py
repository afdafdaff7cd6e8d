"""Elements from computed places (a resized image) that others are joined to: fetched for a few lines first.

Inlined, the places are computed beside arithmetic that LLVM would make vectors of, and either it gathers or
nothing is a vector: 128 images of 13 x 13 twice as large, the nearest pixel, with a sum: 10.4 µs by vectors
that gather, 2.7 by two lines that are written out to a buffer and added from there; 64 of 28 x 28 23 and 5.9
(Zen 5, two cores).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tuner.expressions import loads_of
from tuner.space.marks import is_marked, mark
from tuner.space.registers import fused
from tuner.space.staging import below
from tuner.space.strides import steps_of
from tuner.space.unrolled import is_computed, may_be_written_out

#: Lines that are fetched at once, of which two are taken that come out even, and of those of a whole image
#: the ones in one body. 384 of 49 x 8, of whose 98 lines four are no part, took 62 µs inlined, 104 by two
#: lines, 26 by seven (Zen 5).
_LINES, _OF_IMAGE = (2, 4, 3, 5, 7, 11, 13), (1, 2)
#: Elements of images that a core fetches at once, which its first cache holds.
_MAX_IMAGE = 1 << 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """How a block has what it joins fetched."""

    #: Lines in one body of what fetches.
    lines: int
    #: A whole image is fetched at once, else those lines alone.
    is_image: bool
    #: The first loops, which the cores share.
    n_outer: int


def fetched_by(schedule: Any, block: Any) -> Any | None:
    """The only producer of a block, beside parameters, where it fetches a line's elements from elsewhere."""
    producers = list(schedule.get_producers(block))
    return producers[0] if len(producers) == 1 and fetches(schedule, producers[0]) else None


def fetches(schedule: Any, block: Any) -> bool:
    """One other block alone reads what this one finds at computed places, with more beside it."""
    node = schedule.get(block)
    if type(node.body).__name__ != "BufferStore" or node.init is not None or is_marked(node):
        return False
    last = len(node.iter_vars) - 1
    line = int(node.iter_vars[-1].dom.extent) if last > 1 else 1
    if line == 1 or not is_computed(node, last) or not may_be_written_out(node, line):
        return False
    consumers = list(schedule.get_consumers(block))
    return len(consumers) == 1 and _joins(schedule.get(consumers[0]), node)


def _joins(consumer: Any, producer: Any) -> bool:
    """At each place it reads the other's element of the same place, and from another buffer.

    What finds elements itself would not be a plain line: of several such producers, once one of them is
    inlined the others are as well, else design spaces would double with each.
    """
    written = producer.body.buffer
    if type(consumer.body).__name__ != "BufferStore" or consumer.init is not None:
        return False
    if is_computed(consumer, len(consumer.iter_vars) - 1):
        return False
    loads = loads_of(consumer.body)
    found = [load for load in loads if load.source.same_as(written)]
    if not found or len(found) == len(loads):
        return False
    own = [int(axis.dom.extent) for axis in producer.iter_vars]
    steps = steps_of(producer, written, producer.body.indices)
    return [int(axis.dom.extent) for axis in consumer.iter_vars] == own and all(
        steps_of(consumer, load.source, load.indices) == steps for load in found
    )


def fetched_of(schedule: Any, block: Any, *, enough: int) -> Iterator[Fetched]:
    """None where no producer fetches. `enough`: pieces that keep the cores busy; 0: for one core."""
    producer = fetched_by(schedule, block)
    if producer is None:
        return
    node = schedule.get(producer)
    *images, lines, line = (int(axis.dom.extent) for axis in node.iter_vars)
    few = [size for size in _LINES if lines % size == 0][:2] or [1]
    of_image = [size for size in _OF_IMAGE if lines % size == 0 and lines * line <= _MAX_IMAGE]
    for is_image, sizes in ((False, few), (True, of_image)):
        for size in sizes:
            outer = images if is_image else [*images, lines // size]
            if may_be_written_out(node, size * line) and math.prod(outer) >= enough:
                yield Fetched(lines=size, is_image=is_image, n_outer=_n_shared(outer, enough))


def _n_shared(outer: list[int], enough: int) -> int:
    n = 0
    while math.prod(outer[:n]) < enough:
        n += 1
    return n


def write_fetched(schedule: Any, block: Any, way: Fetched) -> list[Any]:
    """Returns the loops that the cores share. Raises what TVM raises where it cannot."""
    producer = fetched_by(schedule, block)
    *outer, lines, line = schedule.get_loops(block)
    if not way.is_image:
        pieces, lines = schedule.split(lines, [None, way.lines])
        outer.append(pieces)
    shared = [fused(schedule, outer[: way.n_outer])] if way.n_outer else []
    at = [*shared, *outer[way.n_outer :]][-1]
    schedule.compute_at(producer, at, preserve_unit_loops=True)
    *_, fetched, element = below(schedule, producer, at)
    schedule.unroll(element)
    if way.lines > 1:
        _, fetched = schedule.split(fetched, [None, way.lines])
        schedule.unroll(fetched)
    mark(schedule, producer)
    fused(schedule, [lines, line])
    return shared
