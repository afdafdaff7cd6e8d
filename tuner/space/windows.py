"""Reductions over a small window, channel by channel: depthwise convolutions and poolings.

A tile of neighbouring outputs stays in registers while the window passes over it, its channels (or whatever
lies innermost) as vectors. Padding is a copy of the rows that a core is about to read, or is decided at each
read. What shares no axis between operands and sums over many is a contraction, not a window.

A line that is no multiple of the target's vectors (channels first, 28 pixels) ends with a lesser one, and a
line of its neighbours with a lesser tile. A line shorter than a vector (14 pixels) is a vector all the same.
Lines whose neighbours lie a stride apart are dealt out by their copy, so that every tap reads what lies side
by side; else such a line is a plain loop over unrolled taps, of which LLVM makes vectors that it shuffles at
each tap.
"""

import dataclasses
import itertools
import math
import operator
from dataclasses import dataclass
from typing import Any

from tuner.addresses import UnknownError, element_bytes
from tuner.expressions import loads_of, places_in
from tuner.space.calls import counts_places
from tuner.space.choices import choosing_places
from tuner.space.marks import is_marked
from tuner.space.strides import strides_of
from tuner.space.vectors import VectorUnit, ending_speed, largest_divisor, speed_of, widened

_SPATIAL, _REDUCTION = 0, 2
#: Taps of a window that are unrolled; larger ones are reductions like others.
_MAX_TAPS = 64
_MIN_LANES = 4
#: Neighbours in a tile: taps that two of them share are loaded once. Of more than _FEW_TAPS taps, with 32
#: registers, the second: 7 x 7 of 96 x 96, 26 channels first, took 84 µs by eight, in the window's order, 58
#: with taps that none share before the others, 54 by twelve; 5 x 5, 64 channels last, 28 by six and 25 by
#: twelve (Zen 5).
_TILES, _LARGER_TILES = (4, 8), (8, 12)
#: Elements from one neighbour to the next that LLVM may still load together.
_MAX_STRIDE = 4
#: Registers of one vector, the part of them that it has to fill, and how much more than another vector does.
_MAX_VECTORS, _MIN_SPEED, _GAIN = 4, 0.4, 1.2
#: With more taps what is loaded once is too much for the registers, but for those along one axis.
_FEW_TAPS, _MANY_REGISTERS = 9, 32
#: Lines of a tile that holds what it reads, and outputs for each vector read: 3 x 3 taps, four lines of two.
_MAX_LINES, _MIN_OUTPUTS = 4, 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """How one block is written: `neighbours` outputs of `lanes` channels at a time.

    With one lane the neighbours are a line, whose vectors are LLVM's. Where they divide no line of neighbours
    or of channels the last tile has fewer.
    """

    neighbours: int
    lanes: int
    #: The padding is decided at each read, else copied with what it surrounds.
    inlines_padding: bool = False
    #: Lines of neighbours; several stand in registers beside the padded part of the image that they read.
    lines: int = 1
    #: Elements from one neighbour to the next, which the copy deals out; 1 where it leaves them.
    stride: int = 1
    #: It deals out what a few lines read; else, where the next ones read most of it again, what a core does.
    deals_lines: bool = False
    #: What reads an output follows it at once, else a tile or a core's piece of them.
    ends_elements: bool = False
    #: Places of the axes no tap of which neighbours share: they come before the others, which are unrolled.
    apart: tuple[int, ...] = ()
    #: These stay loops, else they are unrolled as well.
    rolls: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """The innermost axis of the output, and the one before it."""

    extent: int
    lines: int
    #: The cores share other axes than these two.
    is_shared: bool
    #: Elements between neighbours in what is read.
    stride: int
    n_taps: int
    #: Of axes that share no tap between neighbours.
    apart: tuple[int, ...]


def windows_of(schedule: Any, block: Any, unit: VectorUnit) -> tuple[Window, ...]:
    """Empty where the block is no small window."""
    line = _line_of(schedule.get(block))
    if line is None:
        return ()
    copies = paddings_of(schedule, block)
    plain = Window(neighbours=line.extent, lanes=1)
    ended = _ended(schedule, block, line, plain, pads=bool(copies))
    if line.stride > 1:
        # Without taps that two outputs share there is nothing that a copy would save.
        dealt = _sizes(line, unit) if len(copies) == 1 and line.n_taps > line.stride**2 else ()
        found = (*dealt, plain)
    else:
        found = _sizes(line, unit) or (plain,)
    # Where padding depends on the line itself, a vector would be taken apart at each read.
    if not copies or any(_pads_lines(schedule.get(copy)) for copy in copies):
        return (*found, *ended)
    inlined = (dataclasses.replace(window, inlines_padding=True) for window in found)
    pairs = tuple(each for pair in zip(found, inlined, strict=True) for each in pair)
    several = _of_several_lines(schedule.get(block), [schedule.get(copy) for copy in copies], unit)
    return (*pairs, *several, *ended)


def _ended(schedule: Any, block: Any, line: _Line, plain: Window, *, pads: bool) -> tuple[Window, ...]:
    """Averages over as many elements as there are at a place: taps, padding and count in one plain loop.

    LLVM masks what lies outside: two by two taps of 182 x 53 x 53 took 92 µs by vectors of a line, 45 so.
    """
    readers = schedule.get_consumers(block)
    if line.n_taps > _FEW_TAPS or len(readers) != 1 or not counts_places(schedule.get(readers[0])):
        return ()
    ended = dataclasses.replace(plain, ends_elements=True)
    return (ended, dataclasses.replace(ended, inlines_padding=True)) if pads else (ended,)


def paddings_of(schedule: Any, block: Any) -> list[Any]:
    """Producers that move elements and read nothing else, and are not scheduled yet."""
    producers = {producer: schedule.get(producer) for producer in schedule.get_producers(block)}
    return [
        producer
        for producer, node in producers.items()
        if node.init is None and len(node.reads) == 1 and not is_marked(node)
    ]


def _line_of(node: Any) -> _Line | None:
    """None where the block is no small window, or its neighbours do not lie side by side."""
    places = range(len(node.iter_vars))
    extents = [int(axis.dom.extent) for axis in node.iter_vars]
    kinds = [int(axis.iter_type) for axis in node.iter_vars]
    spatial = [place for place in places if kinds[place] == _SPATIAL]
    taps = [place for place in places if kinds[place] == _REDUCTION]
    if len(spatial) < 2 or not taps or len(spatial) + len(taps) != len(places):
        return None
    n_taps = math.prod(extents[place] for place in taps)
    steps = _steps(node, spatial[-1]) if n_taps <= _MAX_TAPS else ()
    if not steps or not 1 <= max(steps) <= _MAX_STRIDE:
        return None
    return _Line(
        extent=extents[spatial[-1]],
        lines=extents[spatial[-2]],
        is_shared=any(extents[place] > 1 for place in spatial[:-2]),
        stride=max(steps),
        n_taps=n_taps,
        apart=_apart(node, taps, neighbours=spatial[-2]),
    )


def _sizes(line: _Line, unit: VectorUnit) -> tuple[Window, ...]:
    """None where no vector is filled."""
    found: list[tuple[int, int, bool]] = []
    even = math.gcd(line.extent, unit.lanes)
    most = min(line.extent, _MAX_VECTORS * unit.lanes)
    speeds = {n: speed_of(n, unit) for n in range(_MIN_LANES, most + 1) if line.extent % n == 0}
    best = max(speeds.values(), default=0.0)
    of_even, ending = speed_of(even, unit), ending_speed(line.extent, unit)
    if 2 * of_even >= best and even in speeds and ending < _GAIN * of_even:
        found += [(neighbours, even, rolls) for neighbours, rolls in _tiles(line, unit)]
    if ending >= max(best, _GAIN * of_even):
        found += [(neighbours, unit.lanes, rolls) for neighbours, rolls in _tiles(line, unit)]
    elif best >= max(_MIN_SPEED, _GAIN * of_even):
        wide = max(lanes for lanes in speeds if speeds[lanes] == best)
        narrow = max((n for n in speeds if n <= unit.lanes), key=lambda n: (speeds[n], n), default=wide)
        rolls = line.n_taps > _FEW_TAPS and bool(line.apart)
        of_wide, of_narrow = (_neighbours(line, lanes, unit) for lanes in (wide, narrow))
        if of_wide > 1 and not (rolls and wide == narrow):
            found.append((of_wide, wide, False))
        if rolls or of_wide == 1:
            found.append((of_narrow, narrow, rolls))
    return tuple(
        Window(
            neighbours=neighbours,
            lanes=lanes,
            stride=line.stride,
            deals_lines=line.stride > 1 and line.n_taps <= _FEW_TAPS,
            apart=line.apart,
            rolls=rolls,
        )
        for neighbours, lanes, rolls in dict.fromkeys(found)
    )


def _tiles(line: _Line, unit: VectorUnit) -> tuple[tuple[int, bool], ...]:
    """Few neighbours, and more, for which loops stay where there are many taps; where they are, first."""
    has_few_taps = line.n_taps <= _FEW_TAPS
    few, many = _TILES if has_few_taps or unit.registers < _MANY_REGISTERS else _LARGER_TILES
    of_few = (_tile(line, at_most=few), False)
    of_many = (_tile(line, at_most=many), not has_few_taps and bool(line.apart))
    return (of_few, of_many) if has_few_taps else (of_many, of_few)


def _tile(line: _Line, *, at_most: int) -> int:
    """Neighbours of each tile; where hardly any number divides them the last has fewer.

    17 x 17, 256 channels, 5 x 5, took 60 µs one by one, 23 by six and at last five; 13 x 13, 512 channels,
    3 x 3, 20 and 13 (Zen 4). Of neighbours that the cores share TVM cannot tell which core has the last.
    """
    whole = largest_divisor(line.lines, at_most=at_most)
    if 2 * whole > at_most or not line.is_shared:
        return whole
    n_tiles = -(-line.lines // at_most)
    return -(-line.lines // n_tiles)


def _of_several_lines(node: Any, copies: list[Any], unit: VectorUnit) -> tuple[Window, ...]:
    """The tile that reads fewest vectors for each output, where it and what it reads fit the registers."""
    spatial, taps = (
        [place for place, axis in enumerate(node.iter_vars) if int(axis.iter_type) == kind]
        for kind in (_SPATIAL, _REDUCTION)
    )
    copied = [load for copy in copies for load in loads_of(node.body) if _writes(copy, load.source)]
    if len(spatial) < 3 or len(copied) != 1 or len(copies) != 1:
        return ()
    height, width, line = (int(node.iter_vars[place].dom.extent) for place in spatial[-3:])
    if line % unit.lanes:
        return ()
    places = (spatial[-3], spatial[-2], *taps)
    try:
        steps = strides_of(node, copied[0].source, copied[0].indices, places=places)
    except UnknownError:
        return ()
    sizes = [range(int(node.iter_vars[place].dom.extent)) for place in taps]
    best, chosen = _MIN_OUTPUTS, None
    for lines, neighbours in itertools.product(range(_MAX_LINES, 1, -1), range(1, _MAX_LINES + 1)):
        points = itertools.product(range(lines), range(neighbours), *sizes)
        n_read = len({sum(map(operator.mul, steps, point)) for point in points})
        fits = n_read + lines * neighbours <= unit.registers
        if fits and height % lines == width % neighbours == 0 and lines * neighbours / n_read > best:
            best, chosen = lines * neighbours / n_read, (lines, neighbours)
    if chosen is None:
        return ()
    return (Window(neighbours=chosen[1], lanes=unit.lanes, lines=chosen[0]),)


def _writes(node: Any, buffer: Any) -> bool:
    return bool(node.writes[0].source.same_as(buffer))


def _neighbours(line: _Line, lanes: int, unit: VectorUnit) -> int:
    """Of an odd vector: few where it takes several registers."""
    registers = _registers(lanes, unit)
    few, many = _TILES
    most = few if registers > 1 else many
    return _tile(line, at_most=min(most, unit.registers * 3 // 4 // registers))


def _registers(lanes: int, unit: VectorUnit) -> int:
    return max(1, widened(lanes) // unit.lanes)


def _pads_lines(node: Any) -> bool:
    return len(node.iter_vars) - 1 in choosing_places(node)


def _apart(node: Any, taps: list[int], *, neighbours: int) -> tuple[int, ...]:
    """Places of the taps that stand in no index beside the neighbours."""
    together = [places_in(node, [index]) for load in loads_of(node.body) for index in load.indices]
    shared = frozenset[int]().union(*(places for places in together if neighbours in places))
    return tuple(place for place in taps if place not in shared)


def _steps(node: Any, place: int) -> tuple[int, ...]:
    """Elements from one neighbour along axis `place` to the next, in each operand.

    None where neighbours do not lie side by side in the output, or no two alike.
    """
    from tvm.tirx import BufferStore

    if not isinstance(node.body, BufferStore):  # an arg-max stores two results
        return ()
    store = node.body
    accesses = [(store.buffer, store.indices)]
    accesses += [
        (load.source, load.indices) for load in loads_of(node.body) if not load.source.same_as(store.buffer)
    ]
    try:
        written, *read = [
            strides_of(node, buffer, indices, places=[place])[0] // element_bytes(buffer)
            for buffer, indices in accesses
        ]
    except UnknownError:
        return ()
    return tuple(read) if written == 1 else ()
