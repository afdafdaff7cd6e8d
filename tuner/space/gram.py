"""A product of an operand with itself, C[m, n] += X[m, k] * X[n, k], as of Gram matrices and covariances.

TVM cannot tell the two reads apart, and copies neither alone. The operand is read where it lies, or, where it
lies along the depth, from one copy of it that lies along its rows.
"""

import math
from collections.abc import Sequence
from typing import Any

from tuner.expressions import loads_of, places_in
from tuner.space.axes import Axis
from tuner.space.contraction import Contraction
from tuner.space.index_maps import fusing
from tuner.space.marks import mark
from tuner.space.staging import Stage, space_rows, write_stage
from tuner.space.vectors import largest_divisor
from tuner.trace import TVM_ERRORS

#: Rows that a core copies at once, and the sides of the squares that it transposes in registers: 192 x 512
#: took 24 µs, with 64 rows 31, with squares of sixteen 21; 1024 x 1024 250, 225 and 467 (Zen 4).
_MAX_ROWS, _SQUARE = 32, 8


def across(schedule: Any, name: str, contraction: Contraction) -> Any | None:
    """A copy of the schedule whose block `name` reads its operand row beside row; None where it cannot."""
    block = schedule.get(schedule.get_sblock(name))
    order = _order(block, contraction)
    if order is None:
        return None
    result = schedule.copy()
    try:
        _lay_across(result, result.get_sblock(name), order)
    except TVM_ERRORS:
        return None
    return result


def _order(block: Any, contraction: Contraction) -> tuple[tuple[Axis, ...], ...] | None:
    """(batch, depth, rows) dimensions of the operand, each by its place; None where one is of two kinds."""
    operand = block.reads[contraction.vectors.read].source
    load = next(load for load in loads_of(block.body) if load.source.same_as(operand))
    kinds: tuple[list[Axis], ...] = ([], [], [])
    sides = (contraction.batch, contraction.depth, (*contraction.rows, *contraction.columns))
    for place, index in enumerate(load.indices):
        used = places_in(block, [index])
        found = [at for at, axes in enumerate(sides) if used & {axis.place for axis in axes}]
        if len(found) > 1:
            return None
        kinds[found[0] if found else 0].append(Axis(place=place, extent=int(load.source.shape[place])))
    batch, depth, rows = (tuple(axes) for axes in kinds)
    return (batch, depth, rows) if depth and rows else None


def _lay_across(schedule: Any, block: Any, order: Sequence[Sequence[Axis]]) -> None:
    batch, depth, rows = order
    copy = schedule.cache_read(block, 0, "global")
    everything = sorted((*batch, *depth, *rows), key=lambda axis: axis.place)
    places = [axis.place for axis in everything]
    schedule.transform_layout(block, ("read", 0), fusing(places, [[axis] for part in order for axis in part]))
    sides = [part for part in (batch, rows, depth) if part]
    schedule.transform_block_layout(copy, fusing(places, sides))
    n_rows, n_depth = (math.prod(axis.extent for axis in part) for part in (rows, depth))
    size = largest_divisor(n_rows, at_most=_MAX_ROWS)
    stage = Stage(block=copy, lanes=size, along_depth=True, in_panels=True, depth=n_depth)
    write_stage(schedule, stage, after=None, lanes=_SQUARE)
    if len(rows) == 1:
        space_rows(schedule, copy)
    mark(schedule, copy)
