"""Lines whose elements come from places that are computed: resized images, rolled or shuffled lines.

A loop over such a line computes each element's place anew, and gathers. Unrolled, every place is a constant,
and LLVM makes vectors and shuffles of them. Left to itself it would rather make vectors of the same element
of sixteen lines, gathered and scattered; two lines in one body keep it from that. 128 images of 16 x 16 twice
as large, the nearest pixel: as a loop 31 µs, unrolled 42, two lines at a time 3.7; 64 of 32 x 32 in between
pixels: 200, 115 and 70 (Zen 4).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tuner.expressions import loads_of, places_in
from tuner.space.calls import parts_of
from tuner.space.strides import steps_of

#: Elements that are written out, and loads of them: LLVM takes half a second for so many.
_MAX_ELEMENTS, _MAX_LOADS = 512, 2048
#: Lines in one body.
_TOGETHER = (2, 4, 3, 5, 7)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unrolled:
    """The last axis written out, for `together` neighbours of the axis at `beside`."""

    beside: int
    together: int
    #: The first loops, which the cores share.
    n_outer: int


def unrolled_of(node: Any, *, enough: int) -> Iterator[Unrolled]:
    """`enough`: pieces that keep the cores busy; 0: for one core."""
    *outer, line = (int(axis.dom.extent) for axis in node.iter_vars)
    if line == 1 or not is_computed(node, len(outer)):
        return
    known = [place for place, extent in enumerate(outer) if extent > 1 and lies_evenly(node, place)]
    for beside in (*known[::-1], len(outer) - 1):
        sizes = [size for size in _TOGETHER if beside >= 0 and outer[beside] % size == 0]
        if not sizes or not may_be_written_out(node, sizes[0] * line):
            continue
        outer[beside] //= sizes[0]
        n_outer = 0
        while n_outer < len(outer) and math.prod(outer[:n_outer]) < enough:
            n_outer += 1
        yield Unrolled(beside=beside, together=sizes[0], n_outer=n_outer)
        return


def write_unrolled(schedule: Any, loops: Sequence[Any], way: Unrolled) -> list[Any]:
    """Returns the loops that the cores share. Raises what TVM raises where it cannot."""
    *outer, line = loops
    outer[way.beside], together = schedule.split(outer[way.beside], [None, way.together])
    schedule.reorder(*outer, together, line)
    schedule.unroll(together)
    schedule.unroll(line)
    return outer[: way.n_outer]


def may_be_written_out(node: Any, n_elements: int) -> bool:
    """LLVM takes no longer than for other programs."""
    return n_elements <= min(_MAX_ELEMENTS, _MAX_LOADS // max(1, len(loads_of(node.body))))


def is_computed(node: Any, place: int) -> bool:
    """An operand's index is more than sums of this axis and others, but no look-up."""
    return any(
        steps_of(node, load.source, load.indices)[place] is None
        and not any(_looks_up(index) for index in load.indices if place in places_in(node, [index]))
        for load in loads_of(node.body)
    )


def _looks_up(index: Any) -> bool:
    return any(type(part).__name__ == "BufferLoad" for part in parts_of(index))


def lies_evenly(node: Any, place: int) -> bool:
    """The axis steps each operand by as much, or not at all."""
    return all(steps_of(node, load.source, load.indices)[place] is not None for load in loads_of(node.body))
