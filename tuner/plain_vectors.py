"""Loops that LLVM makes vectors of by itself: nothing in the schedule tells that it does."""

import math
from typing import Any

import numpy as np

from tuner.addresses import Ints, UnknownError, element_bytes
from tuner.leaves import Leaf, leaves

_SERIAL, _UNROLLED = 0, 3
#: Steps of a sum for each load and store of it from which on these count for little.
_AT_ONCE = 4
#: Elements from one that is loaded to the next: of every other one LLVM loads whole vectors and shuffles.
_APART = 2


def plain_vectors(mod: Any) -> list[int]:
    """For each buffer that a scheduled module writes, in its order, the steps of such a loop.

    0 where there is none: where the schedule has vectors itself, along a sum, or where an index is unknown.
    """
    steps: dict[Any, tuple[float, int]] = {}
    for leaf in leaves(mod):
        buffer = leaf.realize.block.body.buffer
        weight, known = steps.get(buffer, (0.0, 0))
        try:
            steps[buffer] = (leaf.weight, _of(leaf)) if leaf.weight > weight else (weight, known)
        except UnknownError:
            steps[buffer] = (weight, known)
    return [found for _, found in steps.values()]


def _of(leaf: Leaf) -> int:
    """Raises UnknownError."""
    extents = leaf.extents
    kinds = [int(loop.kind) for loop in leaf.loops]
    turning = [at for at, kind in enumerate(kinds) if kind != _UNROLLED and extents[at] > 1]
    if not turning or kinds[turning[-1]] != _SERIAL:
        return 0
    inside = turning[-1]
    places = np.zeros((len(extents), 2 + len(turning)), dtype=np.int64)
    places[turning, range(1, 1 + len(turning))] = 1  # each loop's first step
    places[inside, -1] = extents[inside] - 1
    accesses = [
        (leaf.addresses(buffer, indices, places), element_bytes(buffer)) for buffer, indices in leaf.touched()
    ]
    lie = all(
        _is_line(found[[0, -2, -1]], size, extents[inside], apart=_APART if is_loaded else 1)
        for is_loaded, (found, size) in enumerate(accesses)  # what is stored comes first
    )
    # A sum that goes on outside of the loop leaves its results in memory between.
    stored, _ = accesses[0]
    stays = (stored[1:-1] == stored[0]).any() and _summed_at_once(leaf, inside) < _AT_ONCE
    return extents[inside] if lie and not stays else 0


def _is_line(first_second_last: Ints, size: int, count: int, *, apart: int) -> bool:
    """Of `count` addresses: one element again and again, or elements in a row; not the taps of windows."""
    second, last = first_second_last[1:] - first_second_last[0]
    return bool(second % size == 0 and 0 <= second <= apart * size and last == second * (count - 1))


def _summed_at_once(leaf: Leaf, inside: int) -> int:
    """Steps of a sum, written out inside of a loop, for each time that its result is loaded and stored."""
    at_once = [at for at, loop in enumerate(leaf.loops) if at > inside and int(loop.kind) == _UNROLLED]
    places = np.zeros((len(leaf.loops), 1 + len(at_once)), dtype=np.int64)
    places[at_once, range(1, 1 + len(at_once))] = 1
    stored = leaf.addresses(*next(iter(leaf.touched())), places)
    return math.prod(
        leaf.extents[at] for at, place in zip(at_once, stored[1:], strict=True) if place == stored[0]
    )
