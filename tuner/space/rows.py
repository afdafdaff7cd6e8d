"""Rows in one pass: reductions along contiguous rows, and what is computed of them, one row after the other.

Softmax, normalisations, plain sums: several blocks share their first axes, the rows. They follow one another
within one row, which stays in the first cache; a reduction keeps vectors of partial results, which rfactor
makes an axis of its own, because a single accumulator waits for itself. What lies in one line behind the rows
is one axis here: an image of each channel is a row as well.
"""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tuner.addresses import UnknownError, element_bytes
from tuner.space.calls import has_call, parts_of
from tuner.space.contraction import Contraction
from tuner.space.reshapes import with_rows_first
from tuner.space.strides import strides_of
from tuner.space.vectors import VectorUnit

_SPATIAL, _REDUCTION = 0, 2
#: Vectors that may be accumulated side by side.
_ACCUMULATORS = range(1, 9)
#: Rows shorter than this many vectors are left to others.
_MIN_VECTORS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """One way to pass over the rows that some blocks share."""

    #: By name, producers first.
    blocks: tuple[str, ...]
    #: How many first axes the blocks share.
    n_axes: int
    lanes: int
    #: A row ends within a vector.
    has_tail: bool
    #: Blocks that call a function for each element stay scalar.
    calls_are_scalar: bool


def rows_of(schedule: Any, block: Any, unit: VectorUnit) -> tuple[Rows, ...]:
    """The ways to pass over the rows that `block` reduces; none where it reduces no rows."""
    rows, names = _shared_rows(schedule, block, unit)
    nodes = [schedule.get(schedule.get_sblock(name)) for name in names]
    first = next((str(node.name_hint) for node in nodes if node.init is not None), None)
    # Of a chain's reductions one brings the forms, or they would be there twice.
    if first != str(schedule.get(block).name_hint):
        return ()
    lengths = [line_of(node, len(rows)).length for node in nodes if not is_one_element(node, len(rows))]
    return tuple(
        Rows(
            blocks=names,
            n_axes=len(rows),
            lanes=unit.lanes,
            has_tail=any(length % unit.lanes for length in lengths),
            calls_are_scalar=scalar,
        )
        for scalar in ((True, False) if any(has_call(node) for node in nodes) else (False,))
    )


def n_blocks_of_rows(schedule: Any, block: Any, unit: VectorUnit) -> int:
    """How many blocks `rows_of` passes over with this one, asked of it or of another; 0: it does not."""
    _, names = _shared_rows(schedule, block, unit)
    return len(names)


def in_rows(schedule: Any, block: Any) -> Any:
    """The schedule, or a copy in which what follows a reduction of rows has these for its first axes."""
    node = schedule.get(block)
    rows = _rows(node)
    return with_rows_first(schedule, block, rows) if rows and Contraction.of(node) is None else schedule


def is_one_element(node: Any, n_axes: int) -> bool:
    """Of each row."""
    return _length(node, n_axes) == 1


def n_accumulators(extent: int, lanes: int, *, few: int = 1, lines: int = 1) -> int:
    """Vectors of partial results along a row; a row of whole vectors is one of whole steps.

    More make the chain of steps shorter, and that of the sum across them longer, which takes `few` at a time.
    So many `lines` of this extent are summed together.
    """
    if extent % lanes:
        fitting = [n for n in _ACCUMULATORS if n == 1 or 2 * n * lanes <= extent]
    else:
        fitting = [n for n in _ACCUMULATORS if extent % (n * lanes) == 0]
    return min(fitting, key=lambda n: lines * math.ceil(extent / (n * lanes)) + n * lanes / few)


def _shared_rows(schedule: Any, block: Any, unit: VectorUnit) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """How many rows along each axis a block reduces, and its chain of blocks, maybe none."""
    node = schedule.get(block)
    rows = _rows(node)
    if not rows or Contraction.of(node) is not None:
        return (), ()
    names = _chain(schedule, block, rows, unit.lanes)
    return rows, names if names and _may_be_one_loop(schedule, names, len(rows)) else ()


def _chain(schedule: Any, block: Any, rows: Sequence[int], lanes: int) -> tuple[str, ...]:
    """With all blocks of its rows, producers first; none where one but the last is read elsewhere too."""
    found: dict[str, Any] = {}

    def visit(each: Any) -> None:
        node = schedule.get(each)
        if str(node.name_hint) in found or not _passes(node, rows, lanes):
            return
        found[str(node.name_hint)] = each
        for neighbour in (*schedule.get_producers(each), *schedule.get_consumers(each)):
            visit(neighbour)

    visit(block)
    names = in_order(schedule, found)
    read_by = [names_of(schedule, schedule.get_consumers(found[name])) for name in names[:-1]]
    return names if all(readers and readers <= set(names) for readers in read_by) else ()


def in_order(schedule: Any, names: Collection[str]) -> tuple[str, ...]:
    """As blocks follow one another in the function, producers first: the same, whichever was found first."""
    every = schedule.get_child_blocks(schedule.get_sblock("root"))
    return tuple(name for each in every if (name := str(schedule.get(each).name_hint)) in names)


def names_of(schedule: Any, blocks: Sequence[Any]) -> set[str]:
    return {str(schedule.get(block).name_hint) for block in blocks}


def _rows(node: Any) -> tuple[int, ...]:
    """Extents of the axes that a reduction along its last ones leaves, unit axes at their end not counted."""
    kinds = [int(axis.iter_type) for axis in node.iter_vars]
    if node.init is None or _REDUCTION not in kinds:
        return ()
    n_axes = kinds.index(_REDUCTION)
    if set(kinds[:n_axes]) != {_SPATIAL} or set(kinds[n_axes:]) != {_REDUCTION}:
        return ()
    rows = [int(axis.dom.extent) for axis in node.iter_vars[:n_axes]]
    while rows and rows[-1] == 1:
        rows.pop()
    return tuple(rows)


def _length(node: Any, n_axes: int) -> int:
    return math.prod(int(axis.dom.extent) for axis in node.iter_vars[n_axes:])


def _passes(node: Any, rows: Sequence[int], lanes: int) -> bool:
    """Its first axes are the rows; behind them it takes one element, or a line of them."""
    n_axes = len(rows)
    axes = list(node.iter_vars)
    if [int(axis.dom.extent) for axis in axes[:n_axes]] != list(rows):
        return False
    is_map = node.init is None and all(int(axis.iter_type) == _SPATIAL for axis in axes)
    if not is_map and _rows(node) != tuple(rows):
        return False
    if is_one_element(node, n_axes):
        return node.init is None
    line = line_of(node, n_axes)
    return line.length >= _MIN_VECTORS * lanes and (is_map or line.n_axes == len(axes) - n_axes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The last axes of a block, which take neighbours one by one, or all the same element, of each buffer."""

    n_axes: int
    length: int


def line_of(node: Any, n_rows: int) -> Line:
    """As long as it can be without the rows; of a scale for each channel it is an image, and none of axes."""
    axes = node.iter_vars
    for first in range(n_rows, len(axes)):
        if is_in_line(node, range(first, len(axes))):
            return Line(n_axes=len(axes) - first, length=_length(node, first))
    return Line(n_axes=0, length=1)


def is_in_line(node: Any, places: Sequence[int]) -> bool:
    """Of each buffer these axes of a block take neighbours one by one, or all the same element."""
    extents = [int(node.iter_vars[place].dom.extent) for place in places]
    line = [math.prod(extents[at + 1 :]) for at in range(len(extents))]
    accesses = list(_accesses(node))
    for buffer, indices in accesses:
        try:
            strides = strides_of(node, buffer, indices, places=places)
        except UnknownError:
            return False
        pairs = [
            (stride, element_bytes(buffer) * step)
            for stride, step, extent in zip(strides, line, extents, strict=True)
            if extent > 1
        ]
        if any(stride for stride, _ in pairs) and any(stride != step for stride, step in pairs):
            return False
    return bool(accesses)


def _accesses(node: Any) -> Iterator[tuple[Any, Sequence[Any]]]:
    """Each buffer that is read or written, with its indices."""
    for part in parts_of(node.body):
        if hasattr(part, "indices") and len(part.indices):
            yield (part.source if hasattr(part, "source") else part.buffer), part.indices


def _may_be_one_loop(schedule: Any, names: Sequence[str], n_axes: int) -> bool:
    """No block reads what another makes of other rows; what is overwritten meanwhile rfactor refuses."""
    nodes = [schedule.get(schedule.get_sblock(name)) for name in names]
    made = [region.source for node in nodes[:-1] for region in node.writes]
    return all(
        _is_own_row(node, indices, n_axes)
        for node in nodes
        for buffer, indices in _accesses(node)
        if any(buffer.same_as(each) for each in made)
    )


def _is_own_row(node: Any, indices: Sequence[Any], n_axes: int) -> bool:
    """The first indices are the rows' axes in their order, and no other index knows of them."""
    from tvm.sym import Analyzer
    from tvm.tirx.analysis import undefined_vars

    axes = list(node.iter_vars)[:n_axes]
    if len(indices) < n_axes:
        return False
    bounds = Analyzer()
    for axis in node.iter_vars:
        bounds.bind(axis.var, axis.dom)
    for axis, index in zip(axes, indices, strict=False):
        if not bounds.can_prove_equal(index, axis.var):
            return False
    used = [variable for index in list(indices)[n_axes:] for variable in undefined_vars(index, [])]
    return not any(axis.var.same_as(variable) for axis in axes for variable in used)
