"""Reductions over a small window, channel by channel: depthwise convolutions and poolings.

A tile of neighbouring outputs stays in registers while the window passes over it, unrolled, its channels
(or whatever lies innermost) as vectors. Padding is a copy of the rows that a core is about to read, or is
decided at each read. What shares no axis between operands and sums over many is a contraction, not a window.

Where neighbours lie a stride apart, or fill no vectors (channels first, lines of 14 pixels), the line is a
plain loop over unrolled taps, of which LLVM makes vectors: both halves of a stride of two are loaded, and
shuffled.
"""

import math
from dataclasses import dataclass
from typing import Any

from tuner.addresses import UnknownError, element_bytes
from tuner.space.calls import has_call
from tuner.space.contraction import loads_of
from tuner.space.normal_form import STRUCTURE, TILED
from tuner.space.registers import begin, may_be_vectors
from tuner.space.staging import below
from tuner.space.strides import strides_of
from tuner.space.vectors import VectorUnit, largest_divisor
from tuner.trace import TVM_ERRORS

_SPATIAL, _REDUCTION = 0, 2
#: Taps of a window that are unrolled; larger ones are reductions like others.
_MAX_TAPS = 64
_MIN_LANES = 4
#: Neighbours in a tile: taps that two of them share are loaded once.
_TILES = (4, 8)
_MAX_ROWS = 64
#: Elements from one neighbour to the next that LLVM may still load together.
_MAX_STRIDE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """How one block is written: `neighbours` outputs of `lanes` channels at a time.

    With one lane the neighbours are a line, whose vectors are LLVM's.
    """

    neighbours: int
    lanes: int
    #: The padding is decided at each read, else copied with what it surrounds.
    inlines_padding: bool


def windows_of(schedule: Any, block: Any, unit: VectorUnit) -> tuple[Window, ...]:
    """Empty where the block is no small window."""
    node = schedule.get(block)
    spatial = [axis for axis in node.iter_vars if int(axis.iter_type) == _SPATIAL]
    taps = [axis for axis in node.iter_vars if int(axis.iter_type) == _REDUCTION]
    if len(spatial) < 2 or not taps or len(spatial) + len(taps) != len(node.iter_vars):
        return ()
    if math.prod(int(axis.dom.extent) for axis in taps) > _MAX_TAPS:
        return ()
    extents = [int(axis.dom.extent) for axis in spatial]
    lanes = math.gcd(extents[-1], unit.lanes)
    place = next(at for at, axis in enumerate(node.iter_vars) if axis.same_as(spatial[-1]))
    steps = _steps(node, place)
    if not steps or not 1 <= max(steps) <= _MAX_STRIDE:
        return ()
    if lanes >= _MIN_LANES and max(steps) == 1:
        widths = dict.fromkeys(largest_divisor(extents[-2], at_most=size) for size in _TILES)
    else:
        widths, lanes = {extents[-1]: None}, 1
    padding = (False, True) if _padding(schedule, block) else (False,)
    return tuple(
        Window(neighbours=width, lanes=lanes, inlines_padding=inlines)
        for width in widths
        for inlines in padding
    )


def write_window(schedule: Any, block: Any, window: Window) -> None:
    """Raises what TVM raises where it cannot."""
    kinds = [int(axis.iter_type) for axis in schedule.get(block).iter_vars]
    loops = list(schedule.get_loops(block))
    outer = [loop for loop, kind in zip(loops, kinds, strict=True) if kind == _SPATIAL]
    taps = [loop for loop, kind in zip(loops, kinds, strict=True) if kind == _REDUCTION]
    inside, tile = [outer.pop()], []
    if window.lanes > 1:
        channels, lanes = schedule.split(inside[0], [None, window.lanes])
        row, neighbours = schedule.split(outer.pop(), [None, window.neighbours])
        inside, tile = [row, channels], [neighbours, lanes]
    if all(int(schedule.get(loop).extent) == 1 for loop in outer):  # the cores need something to share
        outer.append(inside.pop(0))
    factors = schedule.sample_perfect_tile(outer[-1], n=2, max_innermost_factor=_MAX_ROWS)
    outer[-1], rows = schedule.split(outer[-1], factors)
    inside.insert(0, rows)
    schedule.reorder(*outer, *inside, *taps, *tile)
    cores = schedule.fuse(*outer) if len(outer) > 1 else outer[0]
    schedule.parallel(cores)
    _write_padding(schedule, block, cores, window)
    _write_consumer(schedule, block, cores, window)
    for loop in (*taps, *tile[:-1]):
        schedule.unroll(loop)
    if tile:
        schedule.vectorize(tile[-1])
    begun = schedule.decompose_reduction(block, taps[0])
    if tile:
        begin(schedule, begun, n_loops=len(tile))
    schedule.annotate(block, TILED, STRUCTURE)


def _write_padding(schedule: Any, block: Any, cores: Any, window: Window) -> None:
    for producer in _padding(schedule, block):
        if window.inlines_padding:
            schedule.compute_inline(producer)
            continue
        schedule.compute_at(producer, cores, preserve_unit_loops=True)
        _vectorize(schedule, producer, cores, window)


def _write_consumer(schedule: Any, block: Any, cores: Any, window: Window) -> None:
    """An epilogue follows each piece; one that TVM cannot place stays where it is."""
    consumers = schedule.get_consumers(block)
    if len(consumers) != 1:
        return
    try:
        schedule.reverse_compute_at(consumers[0], cores, preserve_unit_loops=True)
    except TVM_ERRORS:
        return
    _vectorize(schedule, consumers[0], cores, window)


def _vectorize(schedule: Any, block: Any, cores: Any, window: Window) -> None:
    last = below(schedule, block, cores)[-1]
    node = schedule.get(block)
    if (
        window.lanes > 1
        and int(schedule.get(last).extent) % window.lanes == 0
        and may_be_vectors(node)
        and not has_call(node)
    ):
        _, within = schedule.split(last, [None, window.lanes])
        schedule.vectorize(within)
    schedule.annotate(block, TILED, STRUCTURE)


def _padding(schedule: Any, block: Any) -> list[Any]:
    """Producers that move elements and read nothing else."""
    return [
        producer
        for producer in schedule.get_producers(block)
        if schedule.get(producer).init is None and len(schedule.get(producer).reads) == 1
    ]


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
