"""Sums, maxima and the like of one operand, each of its elements taken once.

Such a block reduces an image, a batch or a whole buffer: gradients of biases, statistics, poolings over all.
What lies side by side decides. Neighbours that stay apart in the result are columns, and whole vectors of
them are summed; neighbours that are summed make vectors of partial results. Where few results leave cores
without work, each takes a piece of the longest axis that is summed, and the pieces' results are summed.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tuner.addresses import UnknownError, element_bytes
from tuner.space.calls import parts_of
from tuner.space.contraction import Contraction
from tuner.space.registers import MIN_PARALLEL_ELEMENTS
from tuner.space.rows import n_accumulators
from tuner.space.strides import strides_of
from tuner.space.vectors import VectorUnit, largest_divisor, widened

_REDUCTION = 2
_MIN_LANES = 4
#: Pieces of work for each core.
_ENOUGH = 4
#: Vectors of columns' sums in registers: 4096 x 512 on two cores took 53 µs, with 8 and 16 no less (Zen 4).
_VECTORS = 4
#: A line of so many sums stays in a second cache.
_MAX_LINE = 1 << 14


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduction:
    """One way to write it. Axes, some of several, are in the operand's order, the outermost first."""

    #: How many neighbouring axes of the block are one here.
    groups: tuple[int, ...]
    kept: tuple[int, ...]
    summed: tuple[int, ...]
    #: The axis of the operand's neighbours: a column, or one of `summed`.
    contiguous: int
    lanes: int
    #: Vectors of sums in registers.
    vectors: int
    #: The cores share the first summed axis out in so many pieces; 1: they share the results out.
    pieces: int
    is_parallel: bool
    #: Sums of a line of columns wait in cache while a few steps pass over them.
    streams: bool = False
    #: The last vector of columns is a lesser one, and has a nest of its own: 5000 x 1021 took 13.1 ms as
    #: stock has it, 0.28 so, 5000 x 1001 by sevens 570 µs, 273 so (Zen 3, two cores).
    ends: bool = False

    @property
    def has_columns(self) -> bool:
        return self.contiguous in self.kept


def reductions_of(schedule: Any, block: Any, unit: VectorUnit, *, cores: int) -> tuple[Reduction, ...]:
    """The ways to write the block; none where it is more than a reduction of one operand."""
    node = schedule.get(block)
    if node.init is None or Contraction.of(node) is not None:
        return ()
    strides = _strides(node)
    if strides is None:
        return ()
    axes = _grouped(node, strides)
    extents = [axis.extent for axis in axes]
    places = sorted(range(len(axes)), key=lambda place: -axes[place].stride)
    summed = tuple(place for place in places if axes[place].is_summed)
    kept = tuple(place for place in places if not axes[place].is_summed)
    contiguous = next(place for place in reversed(places) if extents[place] > 1)
    lanes = _lanes(extents[contiguous], unit)
    is_whole = lanes >= _MIN_LANES and widened(lanes) == lanes
    ends = not is_whole and contiguous in kept and extents[contiguous] > unit.lanes >= _MIN_LANES
    if lanes < _MIN_LANES and not ends:
        return ()
    groups = tuple(axis.n_axes for axis in axes)
    shape = _Shape(
        groups=groups,
        extents=extents,
        kept=kept,
        summed=summed,
        contiguous=contiguous,
        lanes=unit.lanes if ends else lanes,
        ends=ends,
    )
    enough = _ENOUGH * cores if math.prod(extents) >= MIN_PARALLEL_ELEMENTS else 0
    return tuple(shape.columns(enough) if contiguous in kept else shape.along(enough))


def _lanes(extent: int, unit: VectorUnit) -> int:
    """Whole vectors, or halves, before the largest divisor: LLVM makes 16 of 10."""
    common = math.gcd(extent, unit.lanes)
    return common if 2 * common >= unit.lanes else largest_divisor(extent, at_most=unit.lanes)


@dataclass(slots=True)
class _Axis:
    """Neighbouring axes of the block that are summed alike and lie in one line, in results as well.

    A line of the results goes on in the next: sums over 256 channels of 32 x 32, channels first, took 11.2 µs
    line by line, a page from each to the next step, and 4.6 as one of 1024 columns (Zen 5).
    """

    n_axes: int
    extent: int
    #: Elements from one step to the next, of the operand and then of the results.
    strides: tuple[int, ...]
    is_summed: bool

    @property
    def stride(self) -> int:
        """Of the operand."""
        return self.strides[0]


def _grouped(node: Any, strides: Sequence[Sequence[int]]) -> list[_Axis]:
    """`strides`: of the operand and of each result, along each axis of the block."""
    found: list[_Axis] = []
    for place, axis in reversed(list(enumerate(node.iter_vars))):
        own = _Axis(
            n_axes=1,
            extent=int(axis.dom.extent),
            strides=tuple(each[place] for each in strides),
            is_summed=_is_summed(node, place),
        )
        after = found[-1] if found else None
        if after is not None and own.is_summed == after.is_summed and _goes_on(own, after):
            after.strides = own.strides if after.extent == 1 else after.strides
            after.n_axes, after.extent = after.n_axes + 1, after.extent * own.extent
        else:
            found.append(own)
    return found[::-1]


def _goes_on(axis: _Axis, after: _Axis) -> bool:
    """A step along `axis` is where the line of `after` ends."""
    if 1 in (axis.extent, after.extent):
        return True
    return all(
        step == after.extent * step_after
        for step, step_after in zip(axis.strides, after.strides, strict=True)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    groups: tuple[int, ...]
    extents: Sequence[int]
    kept: tuple[int, ...]
    summed: tuple[int, ...]
    contiguous: int
    lanes: int
    ends: bool

    def columns(self, enough: int) -> Iterator[Reduction]:
        """`enough`: pieces that keep the cores busy; 0: for one core."""
        n_vectors = self.extents[self.contiguous] // self.lanes
        vectors = largest_divisor(n_vectors, at_most=_VECTORS)
        if self.extents[self.contiguous] <= _MAX_LINE:
            yield self._way(enough, n_results=self._lines, vectors=1, streams=True)
        if not self.ends:
            yield self._way(enough, n_results=self._lines * (n_vectors // vectors), vectors=vectors)

    def along(self, enough: int) -> Iterator[Reduction]:
        way = self._way(enough, n_results=self._lines, vectors=1)
        shared = way.pieces if self.contiguous == self.summed[0] else 1
        extent = self.extents[self.contiguous] // shared
        if extent >= self.lanes and extent % self.lanes == 0:
            lines = math.prod(self.extents[place] for place in self.summed if place != self.contiguous)
            yield replace(
                way, vectors=n_accumulators(extent, self.lanes, lines=lines // (way.pieces // shared))
            )

    @property
    def _lines(self) -> int:
        return math.prod(self.extents[place] for place in self.kept if place != self.contiguous)

    def _way(self, enough: int, *, n_results: int, vectors: int, streams: bool = False) -> Reduction:
        longest = self.extents[self.summed[0]]
        return Reduction(
            groups=self.groups,
            kept=self.kept,
            summed=self.summed,
            contiguous=self.contiguous,
            lanes=self.lanes,
            vectors=vectors,
            pieces=largest_divisor(longest, at_most=enough) if n_results < enough else 1,
            is_parallel=enough > 0,
            streams=streams,
            ends=self.ends,
        )


def _is_summed(node: Any, place: int) -> bool:
    return int(node.iter_vars[place].iter_type) == _REDUCTION


def _strides(node: Any) -> list[list[int]] | None:
    """Elements between neighbours of what is summed, and of each result, along each axis.

    None where an element is taken twice.

    What is read beside it may depend on results alone, as the mean from which differences are summed. Several
    results may be kept of an element, as it and its square.
    """
    parts = list(parts_of(node.body))
    if any(type(part).__name__ == "Select" for part in parts):  # the place of a maximum
        return None
    regions = [part for part in parts if hasattr(part, "indices")]
    stores = [part for part in regions if hasattr(part, "buffer")]
    loads = [part for part in regions if hasattr(part, "source")]
    if len(stores) + len(loads) != len(regions) or not stores:
        return None
    extents = np.array([int(axis.dom.extent) for axis in node.iter_vars])
    summed = np.array([_is_summed(node, place) for place in range(len(extents))])
    if not np.any(summed & (extents > 1)):
        return None
    try:
        results = [_elements(node, store.buffer, store.indices) for store in stores]
        read = [
            _elements(node, load.source, load.indices)
            for load in loads
            if not any(load.source.same_as(store.buffer) for store in stores)
        ]
    except UnknownError:
        return None
    operands = [each for each in read if np.any(each[summed & (extents > 1)])]
    if not operands or any(not np.array_equal(each, operands[0]) for each in operands):
        return None
    (operand, *_) = operands
    ordered = sorted(
        (int(operand[at]), int(extents[at]), at) for at in range(len(extents)) if extents[at] > 1
    )
    (nearest, _, contiguous), *_ = ordered
    apart = all(after >= step * extent for (step, extent, _), (after, *_) in itertools.pairwise(ordered))
    lies = bool(summed[contiguous]) or all(result[contiguous] == 1 for result in results)
    found = [[int(step) for step in each] for each in (operand, *results)]
    return found if nearest == 1 and apart and lies else None


def _elements(node: Any, buffer: Any, indices: Sequence[Any]) -> Any:
    """int64 [n_axes]."""
    return np.array(strides_of(node, buffer, indices)) // element_bytes(buffer)
