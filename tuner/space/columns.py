"""Columns in one pass: reductions of which neighbours stay apart, and what is computed of their results.

A softmax over the channels of an image that lie apart, a normalisation of each pixel, statistics of columns
and what they are for: several blocks share the axes that one of them keeps, the columns, which lie side by
side. One group of vectors of columns after the other passes through all of the blocks in the first cache,
as `tuner.space.rows` has it for rows. Block by block an image is read from memory as often as it is used:
a layer norm of 96 channels of 56 x 56 took 123 to 148 µs so, and 18 to 26 in one pass (Zen 5, two cores).
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tuner.expressions import loads_of
from tuner.space.calls import has_call, may_be_vectors
from tuner.space.contraction import Contraction
from tuner.space.registers import MIN_PARALLEL_ELEMENTS
from tuner.space.rows import Line, in_order, is_in_line, names_of
from tuner.space.vectors import VectorUnit

_SPATIAL = 0
#: Vectors of columns that pass side by side.
_VECTORS = 8
#: Enough for the cores.
_MANY_LINES = 16
_PIECES_PER_CORE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """One way to pass over the columns that some blocks share."""

    #: By name, producers first; of each the places of the columns' axes among its own, the outermost first.
    blocks: Mapping[str, tuple[int, ...]]
    #: How many of the last of these axes lie in one line.
    n_in_line: int
    lanes: int
    #: Vectors of a line that pass side by side.
    vectors: int
    #: A line ends within them.
    has_tail: bool
    is_parallel: bool
    #: Blocks that call a function for each element stay scalar.
    calls_are_scalar: bool
    #: What is reduced waits in cache while each block goes along a piece of a line, step by step.
    streams: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shared:
    """A chain of blocks, and how many lines of columns they share."""

    blocks: Mapping[str, tuple[int, ...]]
    nodes: Mapping[str, Any]
    line: Line
    n_lines: int

    @property
    def is_long(self) -> bool:
        """More than one core is the sooner done: of all passes together."""
        extents = [[int(axis.dom.extent) for axis in node.iter_vars] for node in self.nodes.values()]
        return sum(math.prod(each) for each in extents) >= MIN_PARALLEL_ELEMENTS

    def n_pieces(self, lanes: int, vectors: int) -> int:
        """For the cores."""
        is_whole = self.line.length % lanes == 0
        return self.n_lines * (self.line.length // (lanes * vectors) if is_whole else 1)


def columns_of(schedule: Any, block: Any, unit: VectorUnit, *, cores: int) -> tuple[Columns, ...]:
    """The ways to pass over the columns that `block` keeps.

    None where it is not passed over again, or much of it in fewer pieces than there are cores.
    """
    shared = _shared(schedule, block, unit)
    if shared is None:
        return ()
    first = next(name for name, node in shared.nodes.items() if node.init is not None)
    vectors = _vectors(shared, unit, cores)
    # Of a chain's reductions one brings the forms, or they would be there twice.
    if first != str(schedule.get(block).name_hint) or vectors is None:
        return ()
    return tuple(
        Columns(
            blocks=shared.blocks,
            n_in_line=shared.line.n_axes,
            lanes=unit.lanes,
            vectors=vectors,
            has_tail=shared.line.length % unit.lanes > 0,
            is_parallel=shared.is_long,
            calls_are_scalar=scalar,
            streams=streams,
        )
        for scalar in ((True, False) if any(has_call(node) for node in shared.nodes.values()) else (False,))
        for streams in (False, True)
    )


def is_shared_out(schedule: Any, block: Any, unit: VectorUnit, *, cores: int) -> bool:
    """`columns_of` passes over its columns, asked of it or of another, in enough pieces for the cores."""
    shared = _shared(schedule, block, unit)
    if shared is None:
        return False
    vectors = _vectors(shared, unit, cores)
    return vectors is not None and shared.n_pieces(unit.lanes, vectors) >= _enough(shared, cores)


def _vectors(shared: _Shared, unit: VectorUnit, cores: int) -> int | None:
    """So many side by side that cores have pieces; a line that ends within one, ends within the last."""
    n_vectors = -(-shared.line.length // unit.lanes)
    fitting = [n for n in range(1, 1 + unit.registers // 2) if n_vectors % n == 0]
    if shared.line.length % unit.lanes == 0:
        enough = _enough(shared, cores)
        few = [n for n in fitting if n <= _VECTORS and shared.n_pieces(unit.lanes, n) >= enough]
        fitting = few or [1]
    most = fitting[-1]
    return most if shared.n_pieces(unit.lanes, most) >= min(cores, _enough(shared, cores)) else None


def _enough(shared: _Shared, cores: int) -> int:
    return _PIECES_PER_CORE * cores if shared.is_long else 1


def _shared(schedule: Any, block: Any, unit: VectorUnit) -> _Shared | None:
    if not _passes(schedule.get(block), _kept(schedule.get(block))):
        return None
    schedule = schedule.copy()  # each question becomes part of a trace
    blocks = _chain(schedule, schedule.get_sblock(str(schedule.get(block).name_hint)))
    nodes = {name: schedule.get(schedule.get_sblock(name)) for name in blocks}
    if sum(_goes_down(node, blocks[name]) for name, node in nodes.items()) < 2:
        return None
    extents = [
        [int(nodes[name].iter_vars[place].dom.extent) for place in kept] for name, kept in blocks.items()
    ]
    if any(each != extents[0] for each in extents):
        return None
    line = _line(nodes, blocks, extents[0], unit)
    if line is None:
        return None
    return _Shared(blocks=blocks, nodes=nodes, line=line, n_lines=math.prod(extents[0]) // line.length)


def _goes_down(node: Any, kept: Sequence[int]) -> bool:
    """It takes several elements of each column."""
    return any(int(axis.dom.extent) > 1 for place, axis in enumerate(node.iter_vars) if place not in kept)


def _chain(schedule: Any, block: Any) -> dict[str, tuple[int, ...]]:
    """All blocks of its columns, producers first; none where one but the last is read elsewhere too."""
    found: dict[str, Any] = {}
    kept: dict[str, tuple[int, ...]] = {}
    waiting = [(block, _kept(schedule.get(block)))]
    while waiting:
        each, places = waiting.pop()
        node = schedule.get(each)
        name = str(node.name_hint)
        if name in found or not _passes(node, places):
            continue
        found[name], kept[name] = each, places
        readers, writers = schedule.get_consumers(each), schedule.get_producers(each)
        waiting += [(reader, _of_reader(node, places, schedule.get(reader))) for reader in readers]
        waiting += [(writer, _of_writer(schedule.get(writer), node, places)) for writer in writers]
    names = in_order(schedule, found)
    read_by = [names_of(schedule, schedule.get_consumers(found[name])) for name in names[:-1]]
    closed = all(readers and readers <= set(names) for readers in read_by)
    nodes = {name: schedule.get(found[name]) for name in names}
    own = all(
        _of_reader(nodes[name], kept[name], nodes[reader]) == kept[reader]
        for name, readers in zip(names, read_by, strict=False)
        for reader in readers & set(names)
    )
    return {name: kept[name] for name in names} if names and closed and own else {}


def _kept(node: Any) -> tuple[int, ...]:
    """Places of the axes, unit ones not counted, that a reduction leaves; none where it reduces nothing."""
    axes = list(enumerate(node.iter_vars))
    if node.init is None or all(int(axis.iter_type) == _SPATIAL for _, axis in axes):
        return ()
    return tuple(
        place for place, axis in axes if int(axis.iter_type) == _SPATIAL and int(axis.dom.extent) > 1
    )


def _passes(node: Any, kept: Sequence[int]) -> bool:
    """It makes one buffer, of a column by itself."""
    if not kept or not hasattr(node.body, "value") or not may_be_vectors(node):
        return False
    if node.init is None:
        return all(int(axis.iter_type) == _SPATIAL for axis in node.iter_vars)
    return _kept(node) == tuple(kept) and Contraction.of(node) is None


def _of_reader(writer: Any, kept: Sequence[int], reader: Any) -> tuple[int, ...]:
    """The places in `reader` of the writer's columns; none where it reads others, or some of them twice."""
    buffer, dims = writer.body.buffer, _dims(writer, writer.body.indices, kept)
    loads = [load for load in loads_of(reader.body) if load.source.same_as(buffer)]
    if dims is None or not loads:
        return ()
    found = {_places(reader, load.indices, dims) for load in loads}
    return found.pop() if len(found) == 1 else ()


def _of_writer(writer: Any, reader: Any, kept: Sequence[int]) -> tuple[int, ...]:
    """The places in `writer` of the columns that `reader` takes from it."""
    if not hasattr(writer.body, "value"):
        return ()
    loads = [load for load in loads_of(reader.body) if load.source.same_as(writer.body.buffer)]
    found = {_dims(reader, load.indices, kept) for load in loads}
    dims = found.pop() if len(found) == 1 else None
    return () if dims is None else _places(writer, writer.body.indices, dims)


def _dims(node: Any, indices: Sequence[Any], kept: Sequence[int]) -> tuple[int, ...] | None:
    """Which index is each column's axis; None where one is none, or more than one knows of them."""
    found = []
    for place in kept:
        variable = node.iter_vars[place].var
        knowing = [at for at, index in enumerate(indices) if any(_variables(index, variable))]
        if len(knowing) != 1 or not indices[knowing[0]].same_as(variable):
            return None
        found += knowing
    return tuple(found)


def _places(node: Any, indices: Sequence[Any], dims: Sequence[int]) -> tuple[int, ...]:
    """The axes that are the indices at `dims`; none where one is no axis, or another index knows of it."""
    places = []
    for dim in dims:
        at = [place for place, axis in enumerate(node.iter_vars) if indices[dim].same_as(axis.var)]
        if not at:
            return ()
        places += at
    return tuple(places) if _dims(node, indices, places) == tuple(dims) else ()


def _variables(index: Any, variable: Any) -> Iterator[bool]:
    from tvm.tirx.analysis import undefined_vars

    return (variable.same_as(each) for each in undefined_vars(index, []))


def _line(
    nodes: Mapping[str, Any],
    blocks: Mapping[str, tuple[int, ...]],
    extents: Sequence[int],
    unit: VectorUnit,
) -> Line | None:
    """The last columns' axes that lie in one line in every block; None where they fill no vector.

    As many as there are, if that is whole vectors. Else a line ends with a lesser one and is not shared out,
    so that axes before it are left to the cores.
    """
    lines: list[Line] = []
    for n in range(1, len(extents) + 1):
        if not all(is_in_line(nodes[name], kept[-n:]) for name, kept in blocks.items()):
            break
        lines.append(Line(n_axes=n, length=math.prod(extents[-n:])))
    long = [line for line in lines if line.length >= unit.lanes]
    whole = [line for line in long if line.length % unit.lanes == 0]
    many = [line for line in long if math.prod(extents) >= _MANY_LINES * line.length]
    found = whole or many or long
    return found[-1] if found else None
