"""Recognises a contraction by its structure: C[b, m, n] += A[b, m, k] * B[b, n, k], a letter any iterators.

Matrix products, batched ones, dense layers, convolutions of any layout (strided, dilated, grouped) and
capsule convolutions are all of this form; a depthwise convolution is not, it shares its channels. Which
operand is loaded as vectors follows from the output's innermost axis. Names and shapes decide nothing.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from tuner.addresses import UnknownError, address_of, fullest_set, value_of
from tuner.expressions import divided_by, is_a, loads_of, places_in, summands
from tuner.space.axes import Axis, ending_with, last_long, n_steps
from tuner.space.products import product_of

_SPATIAL, _REDUCTION = 0, 2
#: A window's taps along a line are at most so many; shared elements are at most so many rows or taps apart.
_MAX_TAPS, _MAX_APART = 7, 2
#: Lines that a set of a first cache of 32 KiB holds, and rows that are looked at: more than any tile has.
_WAYS, _ROWS = 8, 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    #: Its place among the block's reads.
    read: int
    #: Iterators that its indices use, in the block's order.
    places: tuple[int, ...]
    #: Iterators that alone step its innermost axis, by one element.
    contiguous: tuple[int, ...]
    #: It is a window that moves with the results and the depth: a copy repeats its elements.
    repeats: bool
    #: It moves along its lines as well.
    slides: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Contraction:
    """What a block multiplies and sums; `columns` are the output's vectors, read from `vectors`."""

    batch: tuple[Axis, ...]
    rows: tuple[Axis, ...]
    columns: tuple[Axis, ...]
    depth: tuple[Axis, ...]
    #: The operand without columns, of which one element at a time is broadcast.
    scalars: Operand
    #: The operand with columns.
    vectors: Operand
    #: Iterators that step the output's innermost axis by one element.
    contiguous: tuple[int, ...]
    #: Of the results.
    dtype: str
    #: Rows lie evenly apart in their operand and in the output, across their axes as well, as in a
    #: convolution of one tap: a tile may go on in the next line.
    rows_in_line: bool = False
    #: The last of the columns' axes, which lie so.
    line: tuple[Axis, ...] = ()
    #: So many neighbouring rows' scalars at most find room in a first cache at once. Rows that lie a multiple
    #: of 4 KiB apart share a set of it: of more than these each is fetched anew at every step of the depth.
    roomy_rows: int = _ROWS
    #: Operands are of another type than the results.
    casts: bool = False
    #: Both operands are one buffer.
    of_itself: bool = False
    #: Of the depth: its steps, and those of the last rows' axis, go over the same elements of the scalars.
    taps: Axis | None = None
    #: Elements of the largest tile that goes from registers to what reads its results; None: nothing does so.
    taken: int | None = None

    @property
    def extents(self) -> tuple[int, int, int]:
        """Rows, columns, depth."""
        return n_steps(self.rows), n_steps(self.columns), n_steps(self.depth)

    @property
    def columns_in_line(self) -> bool:
        """All of them lie evenly apart, as rows in a line do."""
        return bool(self.line) and n_steps(self.line) == n_steps(self.columns)

    @property
    def run(self) -> int:
        """Columns that lie side by side, in their operand and in the output, before another axis goes on."""
        if self.columns_in_line:
            return n_steps(self.columns)
        return next((axis.extent for axis in reversed(self.columns) if axis.extent > 1), 1)

    @property
    def n_axes(self) -> int:
        return len(self.batch) + len(self.rows) + len(self.columns) + len(self.depth)

    @property
    def batches(self) -> list[tuple[Axis, ...]]:
        """Axes of the batch that are fused to one each; none where it has none.

        Groups that both operands have, and lines of one alone, are apart: of one axis for both, the other
        operand's index would be a division, which pad_einsum takes for no product.
        """
        shared = set(self.scalars.places) & set(self.vectors.places)
        both = tuple(axis for axis in self.batch if axis.place in shared)
        alone = tuple(axis for axis in self.batch if axis.place not in shared)
        apart = n_steps(both) > 1 and n_steps(alone) > 1
        return [axes for axes in ((both, alone) if apart else (self.batch,)) if axes]

    def groups(self, *sides: tuple[Axis, ...]) -> list[tuple[Axis, ...]]:
        """Axes that are fused to one each: the batch's, then these."""
        return [axes for axes in (*self.batches, *sides) if axes]

    @property
    def wraps(self) -> tuple[bool, bool]:
        """Whether rows, and columns, are of several axes: a tile of them may end within a line."""
        rows, columns = (sum(axis.extent > 1 for axis in axes) > 1 for axes in (self.rows, self.columns))
        return rows, columns

    @property
    def writes_rows(self) -> bool:
        """A vector of the output's columns lies contiguous in it."""
        return self.columns[-1].place in self.contiguous

    @property
    def columns_lie(self) -> bool:
        """Its columns lie side by side in their operand and in the output, as one line."""
        lie = self.writes_rows and self.columns[-1].place in self.vectors.contiguous
        return lie and (self.columns_in_line or not self.wraps[1])

    def by_lines(self) -> Self | None:
        """Each line of rows by itself, the other rows' axes in its batch; None where there is one line."""
        others, line = last_long(self.rows)
        if not others or self.rows_in_line:
            return None
        return replace(self, batch=(*self.batch, *others), rows=line)

    def by_images(self) -> Self | None:
        """Each line of columns by itself, the other columns' axes in its batch; None where there is one line.

        Such as images of one tap, channels first: pixels lie side by side, the next image elsewhere.
        """
        others = tuple(axis for axis in self.columns if axis not in self.line)
        if not self.line or n_steps(others) == 1:
            return None
        return replace(self, batch=(*self.batch, *others), columns=self.line)

    def by_column_lines(self) -> Self | None:
        """Each line of columns by itself, as by_images does, though they slide; None where there is one."""
        others, line = last_long(self.columns)
        if not others or self.columns_in_line:
            return None
        return replace(self, batch=(*self.batch, *others), columns=line)

    @classmethod
    def of(cls, block: Any, *, guarded: bool = False) -> Self | None:
        """The contraction that a TVM block is, or None; its columns are those of the output.

        With `guarded` an operand may be zero where a condition does not hold.
        """
        return _contraction(cls, block, guarded=guarded)

    @classmethod
    def turned(cls, block: Any, *, guarded: bool = False) -> Self | None:
        """With rows and columns exchanged: a vector of results is then no vector of the output."""
        return _contraction(cls, block, turn=True, guarded=guarded)


def grouped_axis(block: Any) -> tuple[int, int] | None:
    """(place, size) of an iterator that a load sees as `iterator // size`: a group, or a layout's block."""
    for load in loads_of(block.body):
        for index in _simplified(block, load.indices):
            found = divided_by(index)
            if found is None:
                continue
            for place, axis in enumerate(block.iter_vars):
                extent = int(axis.dom.extent)
                if axis.var.same_as(found[0]) and extent % found[1] == 0 and found[1] < extent:
                    return place, found[1]
    return None


def _contraction(cls: Any, block: Any, *, turn: bool = False, guarded: bool) -> Any:
    operands = product_of(block, guarded=guarded)
    if operands is None:
        return None
    store, loads = operands
    axes = [Axis(place=place, extent=int(axis.dom.extent)) for place, axis in enumerate(block.iter_vars)]
    kinds = [int(axis.iter_type) for axis in block.iter_vars]
    indices = [_simplified(block, load.indices) for load in loads]
    used = [places_in(block, found) for found in indices]
    spatial = [axis for axis, kind in zip(axes, kinds, strict=True) if kind == _SPATIAL]
    depth = tuple(axis for axis, kind in zip(axes, kinds, strict=True) if kind == _REDUCTION)
    of_both = tuple(axis for axis in spatial if axis.place in used[0] and axis.place in used[1])
    own = [
        tuple(axis for axis in spatial if axis.place in used[side] and axis not in of_both) for side in (0, 1)
    ]
    if len(of_both) + len(own[0]) + len(own[1]) != len(spatial) or not own[0] or not own[1] or not depth:
        return None
    contiguous = _contiguous(block, store.buffer, _simplified(block, store.indices))
    side = int(any(axis.place in contiguous for axis in own[0]) == turn)
    read = [place for load in loads if (place := _read_place(block, load)) is not None]
    if len(read) != len(loads):
        return None
    parts = [
        Operand(
            read=read[at],
            places=tuple(sorted(used[at])),
            contiguous=_contiguous(block, loads[at].source, loads[at].indices),
            repeats=any(_moves(block, index) for index in indices[at]),
            slides=_moves(block, indices[at][-1]),
        )
        for at in (0, 1)
    ]
    near = side if _lies_along(own[side], parts[side]) else 1 - side
    depth = _as_it_lies(block, depth, loads[near].source, indices[near])
    rows = ending_with(own[1 - side], parts[1 - side].contiguous)
    columns = ending_with(own[side], contiguous)
    stored = _simplified(block, store.indices)
    lines = [
        _line(block, axes, (load.source, index), (store.buffer, stored))
        for axes, load, index in zip((rows, columns), _sided(loads, side), _sided(indices, side), strict=True)
    ]
    return cls(
        batch=of_both,
        rows=rows,
        columns=columns,
        depth=depth,
        scalars=parts[1 - side],
        vectors=parts[side],
        contiguous=contiguous,
        dtype=str(store.buffer.dtype),
        rows_in_line=lines[0] == rows,
        line=lines[1],
        of_itself=read[0] == read[1],
        casts=any(str(load.source.dtype) != str(store.buffer.dtype) for load in loads),
        roomy_rows=_roomy_rows(block, rows, loads[1 - side].source, indices[1 - side]),
        taps=_taps(block, rows, depth, loads[1 - side].source, indices[1 - side]),
    )


def _lies_along(columns: Sequence[Axis], vectors: Operand) -> bool:
    """Vectors may be read where they lie, without elements that a window repeats."""
    return not vectors.slides and any(axis.place in vectors.contiguous for axis in columns)


def _as_it_lies(block: Any, depth: tuple[Axis, ...], buffer: Any, indices: Sequence[Any]) -> tuple[Axis, ...]:
    """The depth's axes in the order in which an operand has them, whatever the sum's; else in the sum's.

    28 x 28, 64 to 64, 3x3, the sum over (channels, window), images and filters with channels behind
    it: 343 µs in the sum's order, 247 in theirs (Zen 4, two cores).
    """
    try:
        steps = {axis: _step(block, axis, buffer, indices) for axis in depth}
    except UnknownError:
        return depth
    return tuple(sorted(depth, key=lambda axis: -steps[axis]))


def _step(block: Any, axis: Axis, buffer: Any, indices: Sequence[Any]) -> int:
    """Bytes from an element to the axis's next one; none along an axis of one step."""
    at = np.arange(min(axis.extent, 2), dtype=np.int64)
    values: dict[Any, Any] = {other.var: 0 for other in block.iter_vars}
    values[block.iter_vars[axis.place].var] = at
    addresses = address_of(buffer, [value_of(index, values) for index in indices], len(at))
    return int(addresses[-1] - addresses[0])


def _taps(
    block: Any, rows: Sequence[Axis], depth: Sequence[Axis], buffer: Any, indices: Sequence[Any]
) -> Axis | None:
    """None where rows share no scalars, or an index is not understood."""
    line = next((axis for axis in reversed(rows) if axis.extent > 1), None)
    if line is None:
        return None
    try:
        row = _step(block, line, buffer, indices)
        steps = {axis: _step(block, axis, buffer, indices) for axis in depth if 1 < axis.extent <= _MAX_TAPS}
    except UnknownError:
        return None
    near = [axis for axis, step in steps.items() if _share(row, step, axis.extent)]
    return near[0] if len(near) == 1 else None


def _share(row: int, step: int, n_steps: int) -> bool:
    """Steps of a row and steps of the depth, in bytes, go over the same elements."""
    if min(row, step) <= 0:
        return False
    rows_apart, steps_apart = step // math.gcd(row, step), row // math.gcd(row, step)
    return rows_apart <= _MAX_APART and steps_apart < n_steps and steps_apart <= _MAX_APART


def _roomy_rows(block: Any, rows: Sequence[Axis], buffer: Any, indices: Sequence[Any]) -> int:
    """_ROWS where all do, or where an index is not understood."""
    at = np.arange(min(_ROWS, n_steps(rows)), dtype=np.int64)
    values: dict[Any, Any] = {axis.var: 0 for axis in block.iter_vars}
    left = at
    for axis in reversed(rows):
        values[block.iter_vars[axis.place].var] = left % axis.extent
        left = left // axis.extent
    try:
        addresses = address_of(buffer, [value_of(index, values) for index in indices], len(at))
    except UnknownError:
        return _ROWS
    crowded = (count for count in range(1, len(at) + 1) if fullest_set(addresses[:count]) > _WAYS)
    return next(crowded, _ROWS + 1) - 1


def _sided(pair: Sequence[Any], side: int) -> tuple[Any, Any]:
    """The scalars' one of a pair, then the vectors'."""
    return pair[1 - side], pair[side]


def _line(block: Any, axes: tuple[Axis, ...], *accesses: tuple[Any, Sequence[Any]]) -> tuple[Axis, ...]:
    """The most of the last axes that lie in a line in each of the buffers."""
    tails = (axes[first:] for first in range(len(axes)))
    lying = (tail for tail in tails if all(_in_line(block, tail, *access) for access in accesses))
    return next(lying, ())


def _in_line(block: Any, axes: Sequence[Axis], buffer: Any, indices: Sequence[Any]) -> bool:
    """Whether the axes are indices of neighbouring dimensions, and go through all but the first of them."""
    long = [axis for axis in axes if axis.extent > 1]
    alone = [_alone(block, index) for index in indices]
    found = [alone.index(axis.place) for axis in long if axis.place in alone]
    if not found or found != list(range(found[0], found[0] + len(long))):
        return False
    return all(int(buffer.shape[at]) == axis.extent for at, axis in zip(found[1:], long[1:], strict=True))


def _alone(block: Any, index: Any) -> int | None:
    """The place of the iterator that an index is, but for iterators of one step."""
    steps = [
        place
        for summand in summands(index)
        for place, axis in enumerate(block.iter_vars)
        if axis.var.same_as(summand) and int(axis.dom.extent) > 1
    ]
    others = [
        summand
        for summand in summands(index)
        if not any(axis.var.same_as(summand) for axis in block.iter_vars)
    ]
    return steps[0] if len(steps) == 1 and not others else None


def _simplified(block: Any, indices: Iterable[Any]) -> list[Any]:
    """With the iterators' ranges known: a convolution of one group divides by it. Unit axes stay."""
    from tvm.sym import Analyzer

    analyzer = Analyzer()
    for axis in block.iter_vars:
        if int(axis.dom.extent) > 1:
            analyzer.bind(axis.var, axis.dom)
    return [analyzer.simplify(index) for index in indices]


def reindexed_places(block: Any, indices: Iterable[Any]) -> tuple[int, ...]:
    """Places of the iterators that TVM's reindex makes axes of: in a sum it takes unit axes for zero."""
    from tvm.sym import Analyzer

    analyzer = Analyzer()
    for axis in block.iter_vars:
        analyzer.bind(axis.var, axis.dom)
    found = [index if is_a(index, "Var") else analyzer.simplify(index) for index in indices]
    return tuple(sorted(places_in(block, found)))


def _moves(block: Any, index: Any) -> bool:
    """With the results and the depth."""
    axes = [block.iter_vars[place] for place in places_in(block, [index])]
    kinds = {int(axis.iter_type) for axis in axes if int(axis.dom.extent) > 1}
    return {_SPATIAL, _REDUCTION} <= kinds


def _contiguous(block: Any, buffer: Any, indices: Sequence[Any]) -> tuple[int, ...]:
    """Places of the iterators that are the last index, or a summand of it, but for unit axes behind it."""
    long = [index for index, extent in zip(indices, buffer.shape, strict=True) if int(extent) > 1]
    if not long:
        return ()
    found = summands(long[-1])
    return tuple(
        place
        for place, axis in enumerate(block.iter_vars)
        if any(axis.var.same_as(summand) for summand in found)
    )


def _read_place(block: Any, load: Any) -> int | None:
    places = [at for at, region in enumerate(block.reads) if region.source.same_as(load.source)]
    return places[0] if len(places) == 1 else None
