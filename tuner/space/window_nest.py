"""Writes a small window as a loop nest around a tile in registers."""

import math
from collections.abc import Sequence
from typing import Any

from tuner.addresses import element_bytes
from tuner.space.calls import counts_places, gains_from_vectors
from tuner.space.marks import is_marked, mark
from tuner.space.registers import STACK_BYTES, begin, ending, peel, take_from_registers
from tuner.space.staging import below
from tuner.space.windows import Window, paddings_of
from tuner.trace import TVM_ERRORS

_SPATIAL, _REDUCTION = 0, 2
_MAX_ROWS = 64
#: A line of padding that is one vector: of 34 elements 7.9 µs, as a loop 11.1 (96 x 34 x 34, Zen 4).
_MAX_LINE = 64


def write_window(schedule: Any, block: Any, window: Window) -> None:
    """Raises what TVM raises where it cannot."""
    for copy in paddings_of(schedule, block) if window.stride > 1 else ():
        _deal_out(schedule, copy, window.stride)
    kinds = [int(axis.iter_type) for axis in schedule.get(block).iter_vars]
    loops = list(schedule.get_loops(block))
    outer = [loop for loop, kind in zip(loops, kinds, strict=True) if kind == _SPATIAL]
    apart = [loops[place] for place in window.apart]
    shared = [
        loop
        for place, (loop, kind) in enumerate(zip(loops, kinds, strict=True))
        if kind == _REDUCTION and place not in window.apart
    ]
    inside, tile, lines = [outer.pop()], [], None
    if window.lanes > 1:
        channels, lanes = ending(schedule, inside[0], window.lanes, of_lanes=True)
        lines, neighbours = ending(schedule, outer.pop(), window.neighbours, of_lanes=False)
        inside, tile = [lines, channels], [neighbours, lanes]
    if window.lines > 1:
        outer[-1], more = schedule.split(outer[-1], [None, window.lines])
        tile.insert(0, more)
    if all(int(schedule.get(loop).extent) == 1 for loop in outer):  # the cores need something to share
        outer.append(inside.pop(0))
        lines = None
    factors = schedule.sample_perfect_tile(outer[-1], n=2, max_innermost_factor=_MAX_ROWS)
    outer[-1], rows = schedule.split(outer[-1], factors)
    inside.insert(0, rows)
    schedule.reorder(*outer, *inside, *apart, *shared, *tile)
    cores = schedule.fuse(*outer) if len(outer) > 1 else outer[0]
    schedule.parallel(cores)
    # Dealt out for a few lines at a time it stays in the first cache: 64 x 112 x 112 pooled 55 µs, else 73.
    dealt = (lines or rows) if window.deals_lines else cores
    _write_padding(schedule, block, inside[-1] if window.lines > 1 else dealt, window)
    takes = _takes(schedule, block, tile)
    _write_consumer(
        schedule, block, inside[-1] if takes or window.ends_elements else cores, window, takes=takes
    )
    for loop in (*(() if window.rolls else apart), *shared, *tile[:-1]):
        schedule.unroll(loop)
    if tile:
        schedule.vectorize(tile[-1])
    begun = schedule.decompose_reduction(block, (*apart, *shared)[0])
    if tile:
        begin(schedule, begun, n_loops=len(tile))
    mark(schedule, block)


def _deal_out(schedule: Any, copy: Any, stride: int) -> None:
    """Of each line in the copy every `stride`-th element lies side by side."""
    schedule.transform_layout(
        copy,
        ("write", 0),
        lambda *indices: (*indices[:-1], indices[-1] % stride, indices[-1] // stride),
        assume_injective_transform=True,  # what the stride does not divide leaves gaps: nothing reads them
    )


def _write_padding(schedule: Any, block: Any, within: Any, window: Window) -> None:
    """Within a loop whatever it reads is copied, unless it is decided at each read."""
    for producer in paddings_of(schedule, block):
        if window.inlines_padding:
            schedule.compute_inline(producer)
            continue
        schedule.compute_at(producer, within, preserve_unit_loops=True)
        if window.stride > 1:
            line, dealt = schedule.split(below(schedule, producer, within)[-1], [None, window.stride])
            peel(schedule, line)
            schedule.unroll(dealt)
            mark(schedule, producer)
        else:
            _vectorize(schedule, producer, within, window)
            for loop in below(schedule, producer, within)[:-1] if window.lines > 1 else ():
                schedule.unroll(loop)


def _takes(schedule: Any, block: Any, tile: Sequence[Any]) -> bool:
    """What reads the outputs takes each tile of them from registers.

    Behind a core's piece they are written and read once more: 3 x 3 of 56 x 96, 256 channels last, with a
    scale, a shift and ReLU6 took 126 to 146 µs so and 81 from registers, 48 x 48 of 64 channels first 13.0
    and 10.2, averages of two by two of 91 x 91 x 384 233 to 270 and 158 to 209 (Zen 5).
    """
    readers = schedule.get_consumers(block)
    if not tile or len(readers) != 1:
        return False
    node = schedule.get(readers[0])
    if is_marked(node):
        return False
    n_bytes = element_bytes(schedule.get(block).writes[0].source)
    n_bytes *= math.prod(int(schedule.get(loop).extent) for loop in tile)
    return n_bytes < STACK_BYTES and gains_from_vectors(node) and not counts_places(node)


def _write_consumer(schedule: Any, block: Any, after: Any, window: Window, *, takes: bool) -> None:
    """An epilogue follows each piece, or tile, or output; one that TVM cannot place stays where it is."""
    consumers = schedule.get_consumers(block)
    if len(consumers) != 1 or is_marked(schedule.get(consumers[0])):
        return
    try:
        schedule.reverse_compute_at(consumers[0], after, preserve_unit_loops=True)
    except TVM_ERRORS:
        return
    if takes:
        take_from_registers(schedule, below(schedule, consumers[0], after), lanes=window.lanes)
        mark(schedule, consumers[0])
    else:
        _vectorize(schedule, consumers[0], after, window)


def _vectorize(schedule: Any, block: Any, after: Any, window: Window) -> None:
    last = below(schedule, block, after)[-1]
    node, extent = schedule.get(block), int(schedule.get(last).extent)
    if window.lanes > 1 and gains_from_vectors(node) and not counts_places(node):
        if extent % window.lanes == 0:
            _, within = schedule.split(last, [None, window.lanes])
            schedule.vectorize(within)
        elif extent <= _MAX_LINE:
            schedule.vectorize(last)
    mark(schedule, block)
