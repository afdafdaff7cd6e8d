"""Iterators of a block, and sides of a contraction that are made up of several."""

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """An iterator of the block, by its place among the block's iterators."""

    place: int
    extent: int


def ending_with(axes: tuple[Axis, ...], contiguous: tuple[int, ...]) -> tuple[Axis, ...]:
    """Those that step an operand's innermost axis come last."""
    return tuple(sorted(axes, key=lambda axis: axis.place in contiguous))


def last_long(axes: tuple[Axis, ...]) -> tuple[tuple[Axis, ...], tuple[Axis, ...]]:
    """The others and the last axis of several steps; no others where no other has several."""
    long = [axis for axis in axes if axis.extent > 1]
    if len(long) < 2:
        return (), axes
    return tuple(axis for axis in axes if axis != long[-1]), (long[-1],)


def n_steps(axes: Iterable[Axis]) -> int:
    """Of all of them together; one of none."""
    return math.prod(axis.extent for axis in axes)
