"""Copies of an operand in the order in which a kernel reads it, and the loops that make them.

A stage is one block that reads the operand and writes the copy. Its own axes are those of the contraction
(batch, rows or columns, depth), so that it can be computed for any tile; padding is part of it.
"""

import math
from dataclasses import dataclass
from typing import Any

from tuner.addresses import LINE_BYTES, element_bytes
from tuner.expressions import is_a, loads_of, places_in
from tuner.space.calls import gains_from_vectors
from tuner.space.choices import conditions_of
from tuner.space.index_maps import index_map
from tuner.space.registers import peel, write_short_line
from tuner.space.vectors import largest_divisor

#: Narrower vectors than this are left to LLVM.
MIN_LANES = 4
#: Of the depth that a core copies at once.
_STEPS = 16
_REDUCTION = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    block: Any
    #: Elements of the copy that lie side by side.
    lanes: int
    #: The operand lies contiguous along the depth, the stage's last axis.
    along_depth: bool
    #: The copy is laid out in panels of `lanes` rows or columns, else in rows of the depth.
    in_panels: bool
    #: Extent of the depth that every piece is a multiple of.
    depth: int


def panels(schedule: Any, block: Any, place: int, *, size: int) -> None:
    """Lays a copy [batch, n, depth] out as [batch, n // size, depth, n % size]."""
    n = len(schedule.get(block).reads[place].source.shape) - 2
    split = index_map(
        range(n + 2), lambda v: [*(v[at] for at in range(n)), v[n] // size, v[n + 1], v[n] % size]
    )
    schedule.transform_layout(block, ("read", place), split)


def write_stage(schedule: Any, stage: Stage, *, after: Any | None, lanes: int) -> None:
    """Orders and vectorises a stage's loops below `after`; at the root its outer loops go parallel."""
    *batch, wide, depth = below(schedule, stage.block, after)
    if not stage.in_panels:
        outer = wide
        space_rows(schedule, stage.block)
        _vectorize_last(schedule, depth, lanes=lanes, extent=stage.depth)
    else:
        outer, panel = schedule.split(wide, [None, stage.lanes])
        if stage.along_depth:
            _transpose(schedule, panel, depth, lanes=lanes, extents=(stage.lanes, stage.depth))
        else:
            tiles, outer = outer, _by_depth(schedule, outer, depth, panel)
            is_peeled = _has_an_end_alone(schedule.get(stage.block))
            vectors = _vectorize_last(schedule, panel, lanes=lanes, extent=stage.lanes)
            if is_peeled:
                peel(schedule, *(loop for loop in (tiles, vectors) if int(schedule.get(loop).extent) > 1))
    if after is None:
        loops = [*batch, outer]
        schedule.parallel(schedule.fuse(*loops) if len(loops) > 1 else loops[0])


def space_rows(schedule: Any, writer: Any) -> None:
    """Rows of what a block writes lie an odd number of cache lines apart, so that all sets hold some.

    With 1024 numbers in a row 28 of them shared one set of eight lines: 2.3 ms in place of 0.5 (Zen 4).
    """
    buffer = schedule.get(writer).writes[0].source
    line = max(1, LINE_BYTES // element_bytes(buffer))
    schedule.storage_align(writer, 0, len(buffer.shape) - 2, 2 * line, line)


def _by_depth(schedule: Any, panels: Any, depth: Any, panel: Any) -> Any:
    """The outermost of these loops, so ordered that the operand is read on and on.

    Panel by panel, 4 MB took 420 µs on an Intel with AVX-512, a step of the depth at once 283.
    """
    steps, step = schedule.split(
        depth, [None, largest_divisor(int(schedule.get(depth).extent), at_most=_STEPS)]
    )
    schedule.reorder(steps, step, panels, panel)
    return steps


def _has_an_end_alone(node: Any) -> bool:
    """Its one condition is where the operand ends: the last vector alone then has any.

    Else every vector has it, and LLVM gathers what is the same for all of one, as a channel's scale: 1 x 1
    over 14 x 14, channels first, 192 to 14, scaled, took 8 to 13 µs so, without 4.6 to 7; random programs of
    501 x 777, 64 deep, gain 2 %. An image that is padded as well TVM parts by its border's conditions too:
    3 x 3 over 23 x 23, 37 to 51, took 64 µs, and 165 in parts (Zen 5).
    """
    conditions = conditions_of(node)
    if len(conditions) != 1 or not is_a(conditions[0], "LT"):
        return False
    (condition,) = conditions
    return any(axis.var.same_as(condition.a) for axis in node.iter_vars)


def _transpose(schedule: Any, panel: Any, depth: Any, *, lanes: int, extents: tuple[int, int]) -> None:
    """Squares that LLVM transposes in registers: vectors along the depth, as many of them unrolled."""
    across, along = (math.gcd(extent, lanes) for extent in extents)
    panel, row = schedule.split(panel, [None, across])
    depth, within = schedule.split(depth, [None, along])
    schedule.reorder(depth, panel, row, within)
    schedule.unroll(row)
    schedule.vectorize(within)


def _vectorize_last(schedule: Any, loop: Any, *, lanes: int, extent: int) -> Any:
    """Whole vectors of an axis of this extent; left to LLVM where there are none, or many and narrow ones.

    The loop over them, or the axis's own is returned. Of quarters of AVX-512 48 x 192 x 452, 48 deep, took
    1037 µs, left to LLVM 1013, 1000 x 1004, 40 deep, 199 and 193, 333 x 1500, 256 deep, 551 and 540, 2000 x
    36, 32 deep, 15.6 and 14.8; of halves, of either width, both are level, and of 20 columns LLVM's last four
    lanes take longer (Zen 5).
    """
    width = math.gcd(extent, lanes)
    is_wide = 2 * width >= lanes or extent < 2 * lanes
    if width < MIN_LANES or not is_wide:
        return loop
    loop, within = schedule.split(loop, [None, width])
    schedule.vectorize(within)
    return loop


def write_tail(
    schedule: Any,
    tail: Any,
    *,
    after: Any,
    lanes: int,
    columns: int,
    rows: int | None = None,
    ends: bool = False,
) -> None:
    """Vectorises the last axis of what takes a tile of the output to its place, unless it calls functions.

    `rows`: so many of them, the axis before, lie side by side in the output where columns do not.
    `ends`: the last tile has fewer columns. While each has a condition of its own LLVM gathers what is the
    same for a whole row, such as its bias, and on AVX2 makes no vectors: 1 x 1 over 77 x 77, channels first,
    27 to 166, scaled, with a bias, took 262 to 360 µs so, without conditions 184 to 239; and short lines are
    written as vectors: a dense layer of 333 x 27, 77 deep, with ReLU, took 5.4 µs, then 4.9 (Zen 5).
    """
    node = schedule.get(tail)
    if not gains_from_vectors(node):
        return
    *_, row, last = below(schedule, tail, after)
    if rows is not None and math.gcd(columns, lanes) >= MIN_LANES:
        _transpose(schedule, row, last, lanes=lanes, extents=(rows, columns))
        return
    if _vectorize_last(schedule, last, lanes=lanes, extent=columns) is not last:
        return
    has_conditions = int(schedule.get(last).extent) != columns
    if not has_conditions and write_short_line(schedule, last, lanes=lanes):
        return
    if ends and _repeats(node):
        peel(schedule, last)


def _repeats(node: Any) -> bool:
    """What it reads is in part the same all along its last axis."""
    last = len(node.iter_vars) - 1
    return any(last not in places_in(node, load.indices) for load in loads_of(node.body))


def below(schedule: Any, block: Any, after: Any | None) -> list[Any]:
    """The loops around a block, inside of the loop `after`."""
    loops = list(schedule.get_loops(block))
    if after is None:
        return loops
    known = schedule.get(after)
    at = next(place for place, loop in enumerate(loops) if schedule.get(loop).same_as(known))
    return loops[at + 1 :]


def summing(schedule: Any, block: Any) -> list[bool]:
    """Of each loop around a block, whether it goes through what is summed."""
    from tvm.tirx.analysis import undefined_vars

    loops = list(schedule.get_loops(block))
    realize = schedule.get(loops[-1]).body
    bound = [
        variable
        for value, axis in zip(realize.iter_values, realize.block.iter_vars, strict=True)
        if int(axis.iter_type) == _REDUCTION
        for variable in undefined_vars(value, [])
    ]
    around = [schedule.get(loop).loop_var for loop in loops]
    return [any(own.same_as(variable) for variable in bound) for own in around]
