"""Blocks that pad an operand and do nothing else, and the innermost loops of what goes element by element."""

import math
from typing import Any

from tuner.expressions import loads_of
from tuner.space.calls import gains_from_vectors
from tuner.space.choices import choosing_places
from tuner.space.registers import write_short_line
from tuner.space.vectors import largest_divisor

_SPATIAL = 0


def padding_of(schedule: Any, block: Any, buffer: Any) -> Any | None:
    """The producer of the buffer, if it only moves or pads what it reads."""
    for producer in schedule.get_producers(block):
        node = schedule.get(producer)
        if node.init is None and len(node.reads) == 1 and node.writes[0].source.same_as(buffer):
            return producer
    return None


def write_lines(schedule: Any, loops: list[Any], node: Any, *, lanes: int, enough: int = 1) -> list[Any]:
    """Makes vectors, or lines, of the last of `loops`, a spatial block's; returns those outside of them.

    `enough`: where they have fewer steps, pieces of long lines of vectors are among them.
    """
    *outer, last = loops
    extent = int(schedule.get(last).extent)
    if extent % lanes == 0 and gains_from_vectors(node):
        n_outer = math.prod(int(schedule.get(loop).extent) for loop in outer)
        n_pieces = largest_divisor(extent // lanes, at_most=max(1, enough // n_outer))
        if n_pieces > 1:
            pieces, last = schedule.split(last, [n_pieces, None])
            outer = [*outer, pieces]
        _, within = schedule.split(last, [None, lanes])
        schedule.vectorize(within)
    elif len(outer) > 1 and _is_of_lines(node, int(schedule.get(last).extent)):
        *outer, short = outer
        schedule.fuse(short, last)
    elif _may_end(node):
        write_short_line(schedule, last, lanes=lanes)
    return outer


def _may_end(node: Any) -> bool:
    """It is computed by vectors, and of one no lane has a condition of its own."""
    return gains_from_vectors(node) and len(node.iter_vars) - 1 not in choosing_places(node)


def _is_of_lines(node: Any, passed: int) -> bool:
    """All but the last axis is padded, and `passed` is all of that.

    LLVM makes vectors of a line of it, and none of three channels: 160 x 160 x 3, padded by one on two cores,
    took 28.3 µs channel by channel, 3.6 as lines (Zen 4). Of a part of it, as a group's channels, it makes a
    line with holes: 56 x 56, 36 of 288 channels at a time, took 911 µs so, 630 without, convolution and all.
    """
    loads = loads_of(node.body)
    if len(loads) != 1 or any(int(axis.iter_type) != _SPATIAL for axis in node.iter_vars):
        return False
    (load,), last = loads, node.iter_vars[-1]
    ends = (load.indices[-1], node.body.indices[-1])
    whole = int(load.source.shape[-1]) == int(node.body.buffer.shape[-1]) == int(last.dom.extent) == passed
    return whole and all(end.same_as(last.var) for end in ends)
