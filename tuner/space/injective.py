"""Functions that sum nothing: each element of an output is computed by itself, maybe from elsewhere.

TVM calls such blocks injective: activations, normalisations with known statistics, layouts, paddings. What
neighbours everywhere is fused to one line, which LLVM makes vectors of. Where an operand's neighbours are no
neighbours in the output, squares are transposed in registers.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tuner.addresses import element_bytes
from tuner.expressions import loads_of
from tuner.space.calls import has_call
from tuner.space.choices import choosing_places, n_parts_of
from tuner.space.fetched import Fetched, fetched_of, write_fetched
from tuner.space.image_vectors import ImageVectors, image_vectors_of, write_image_vectors
from tuner.space.marks import is_marked, mark
from tuner.space.registers import MIN_PARALLEL_ELEMENTS, ending, fused, sampled
from tuner.space.strides import steps_of
from tuner.space.unrolled import Unrolled, unrolled_of, write_unrolled
from tuner.space.vectors import VectorUnit, largest_divisor

#: Fewer elements than others pay for all cores where each calls a function.
_MIN_PARALLEL_CALLS = 1 << 12
#: Pieces for each core; and a line of so many elements is a piece.
_ENOUGH, _LONG = 4, 256
_MAX_PIECE = 1 << 14
_MIN_LANES = 4
#: Lanes and rows of a square that is transposed, as far as the target has such vectors. 1024 x 128, whose
#: columns lie 4 KiB apart in the output, takes 52, 50 and 20 µs; 256 x 3136 67, 63, 55; 512 x 512 25, 27, 30.
#: Where they do not come out even the last are lesser: 197 x 768 took 48 µs by lines, 6.3 so, 197 x 211 6.0
#: and 2.4, 896 x 69 9.6 and 3.3 (Zen 5).
_SQUARES = ((16, 16), (16, 4), (8, 8))


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Neighbours that lie side by side in all that is accessed become one loop."""

    #: The first axes, which the cores share; the last of them is cut in pieces where there are few.
    n_outer: int
    cuts: bool
    #: The axes from this one on are the line; those before it and not shared are loops.
    first: int
    #: Elements of a vector, 1 where LLVM decides.
    lanes: int
    #: The line is cut in so many parts, in each of which every choice falls alike.
    n_parts: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Squares:
    """Vectors of what lies side by side in an operand, of as many neighbours in the output."""

    #: How many axes are fused to each loop; the last is that of the output's neighbours.
    groups: tuple[int, ...]
    #: The loop of the operand's neighbours, among them.
    across: int
    lanes: int
    rows: int
    #: The cores share the squares out along `across`, else along the last loop.
    spreads_across: bool
    is_parallel: bool
    #: The last vector has fewer lanes, the last square fewer rows; these have loops of their own.
    ends: tuple[bool, bool] = (False, False)

    @property
    def ends_first(self) -> bool:
        """The loop that the cores would share last is one of these: of a fused one TVM does not part it."""
        return self.ends[0 if self.spreads_across else 1]


Way = Line | Squares | Unrolled | ImageVectors | Fetched


@dataclass(slots=True)
class _Group:
    """Neighbouring axes that are evenly apart in all that is accessed."""

    extents: tuple[int, ...]
    #: Bytes from one step to the next in each access, the store first; None where steps differ.
    strides: tuple[int | None, ...]

    @property
    def extent(self) -> int:
        return math.prod(self.extents)

    @property
    def whole(self) -> tuple[int | None, ...]:
        """The strides of an axis that goes on where this one ends."""
        return tuple(None if step is None else self.extent * step for step in self.strides)

    def part(self, most: int) -> int:
        """The largest divisor that TVM sees through: of one above the last axis it takes the remainder."""
        last = next((extent for extent in self.extents[::-1] if extent > 1), 1)
        return largest_divisor(self.extent, at_most=min(most, last))


def stands_alone(schedule: Any, block: Any) -> bool:
    """No block of the function sums, and each loop of this one is an axis of it, none scheduled before."""
    node = schedule.get(block)
    if type(node.body).__name__ != "BufferStore" or not node.iter_vars or is_marked(node):
        return False
    blocks = schedule.get_child_blocks(schedule.get_sblock("root"))
    spatial = all(int(axis.iter_type) == 0 for each in blocks for axis in schedule.get(each).iter_vars)
    return spatial and len(schedule.get_loops(block)) == len(node.iter_vars)


def injectives_of(schedule: Any, block: Any, unit: VectorUnit, *, cores: int) -> tuple[Way, ...]:
    """The ways to write a block that stands alone, the most hopeful first."""
    node = schedule.get(block)
    groups = _groups(node)
    elements = math.prod(group.extent for group in groups)
    calls = has_call(node)
    is_parallel = elements >= (_MIN_PARALLEL_CALLS if calls else MIN_PARALLEL_ELEMENTS)
    enough = _ENOUGH * cores * is_parallel
    fetched = tuple(fetched_of(schedule, block, enough=enough))
    if fetched:
        return fetched
    squares = tuple(_squares(groups, element_bytes(node.body.buffer), unit, cores=cores * is_parallel))
    lanes = 1 if calls or squares else unit.lanes
    n_parts = n_parts_of(node)
    lines = _lines(groups, lanes, enough=enough, n_parts=n_parts)
    images = image_vectors_of(node, unit, cores=cores * is_parallel)
    return (*unrolled_of(node, enough=enough), *images, *squares, *lines)


def write_injective(schedule: Any, block: Any, way: Way) -> None:
    """Raises what TVM raises where it cannot."""
    loops = list(schedule.get_loops(block))
    if isinstance(way, Line):
        outer, is_parallel = _write_line(schedule, loops, way), True
    elif isinstance(way, Unrolled):
        outer, is_parallel = write_unrolled(schedule, loops, way), True
    elif isinstance(way, Fetched):
        outer, is_parallel = write_fetched(schedule, block, way), True
    elif isinstance(way, ImageVectors):
        outer, is_parallel = write_image_vectors(schedule, block, way), way.is_parallel
    else:
        outer, is_parallel = _write_squares(schedule, loops, way), way.is_parallel
    if outer and is_parallel:
        schedule.parallel(fused(schedule, outer))
    mark(schedule, block)


def _write_line(schedule: Any, loops: Sequence[Any], way: Line) -> list[Any]:
    """Returns the loops that the cores share."""
    outer, line = [*loops[: way.n_outer]], [*loops[way.first :]]
    if way.cuts:
        pieces, piece = sampled(schedule, outer.pop(), n=2, max_innermost=_MAX_PIECE)
        outer.append(pieces)
        line = [piece, *line]
    whole = fused(schedule, line)
    if way.n_parts > 1:
        parts, whole = schedule.split(whole, [way.n_parts, None])
        schedule.unroll(parts)
    if way.lanes > 1:
        _, vector = schedule.split(whole, [None, way.lanes])
        schedule.vectorize(vector)
    return outer


def _write_squares(schedule: Any, loops: Sequence[Any], way: Squares) -> list[Any]:
    """Returns the loops that the cores share."""
    left = iter(loops)
    *outer, line = [fused(schedule, [next(left) for _ in range(size)]) for size in way.groups]
    across = outer.pop(way.across)
    vectors, vector = ending(schedule, across, way.lanes, of_lanes=True)
    squares, row = ending(schedule, line, way.rows, of_lanes=True)
    first, second = (vectors, squares) if way.spreads_across else (squares, vectors)
    schedule.reorder(*outer, first, second, row, vector)
    schedule.unroll(row)
    schedule.vectorize(vector)
    if not way.ends_first:
        return [*outer, first]
    several = math.prod(int(schedule.get(loop).extent) for loop in outer) > 1
    return outer if several else [first]


def _lines(groups: Sequence[_Group], lanes: int, *, enough: int, n_parts: int) -> Iterator[Line]:
    """LLVM's own vectors take several at a time; ours are for what it does not see through.

    `enough`: pieces that keep the cores busy; 0: for one core.
    """
    extents = [extent for group in groups for extent in group.extents]
    first = len(extents) - len(groups[-1].extents)
    n_outer, cuts = (first if enough else 0), False
    while n_outer < len(extents) and math.prod(extents[:n_outer]) < enough:
        n_outer += 1
        cuts = math.prod(extents[n_outer:]) < _LONG
    first = max(first, n_outer)
    line = _Group(extents=tuple(extents[first:] or extents[-1:]), strides=())
    if n_parts > 1 and not cuts:
        yield Line(n_outer=n_outer, cuts=cuts, first=first, lanes=1, n_parts=n_parts)
    yield Line(n_outer=n_outer, cuts=cuts, first=first, lanes=1)
    if lanes > 1 and not cuts and line.part(lanes) == lanes:
        yield Line(n_outer=n_outer, cuts=cuts, first=first, lanes=lanes)


def _squares(groups: Sequence[_Group], n_bytes: int, unit: VectorUnit, *, cores: int) -> Iterator[Squares]:
    """Where an operand's last loop steps over others; none where nothing is contiguous in it.

    `cores`: 0 where there is little to share.
    """
    *outer, line = groups
    for access, stride in enumerate(line.strides):
        along = [at for at, group in enumerate(outer) if group.strides[access] == n_bytes]
        if stride in (None, 0, n_bytes) or not along:
            continue
        across = outer[along[0]]
        n_others = math.prod(group.extent for group in outer) // across.extent
        may_share_others = n_others >= _ENOUGH * cores or n_others % cores == 0
        for lanes, rows in _square_sizes(across, line, unit):
            for spreads_across in (False, True):
                way = Squares(
                    groups=tuple(len(group.extents) for group in groups),
                    across=along[0],
                    lanes=lanes,
                    rows=rows,
                    spreads_across=spreads_across,
                    is_parallel=cores > 0,
                    ends=(across.extent % lanes > 0, line.extent % rows > 0),
                )
                if not way.ends_first or n_others == 1 or may_share_others:
                    yield way
        return


def _square_sizes(across: _Group, line: _Group, unit: VectorUnit) -> list[tuple[int, int]]:
    """Lanes and rows, first of squares of which all are whole."""
    asked = [(min(lanes, unit.lanes, across.extent), min(rows, line.extent)) for lanes, rows in _SQUARES]
    whole = [(across.part(lanes), line.part(rows)) for lanes, rows in asked]
    return [(lanes, rows) for lanes, rows in dict.fromkeys(whole + asked) if lanes >= _MIN_LANES and rows > 1]


def _groups(node: Any) -> list[_Group]:
    """The block's axes in their order. Those of a condition, and of what is not understood, stand alone."""
    extents = [int(axis.dom.extent) for axis in node.iter_vars]
    accesses = [(node.body.buffer, node.body.indices)]
    accesses += [(load.source, load.indices) for load in loads_of(node.body)]
    strides = [steps_of(node, buffer, indices) for buffer, indices in accesses]
    alone = choosing_places(node)
    found: list[_Group] = []
    for place, extent in reversed(list(enumerate(extents))):
        own = tuple(steps[place] for steps in strides)
        after = found[-1] if found else None
        if after is None or None in own or None in after.strides or {place, place + 1} & alone:
            found.append(_Group(extents=(extent,), strides=own))
        elif extent == 1 or after.extent == 1 or own == after.whole:
            after.strides = own if after.extent == 1 else after.strides
            after.extents = (extent, *after.extents)
        else:
            found.append(_Group(extents=(extent,), strides=own))
    return found[::-1]
