"""Writes one Reduction into a schedule: columns as vectors, or vectors of partial results by `rfactor`."""

import math
from collections.abc import Sequence
from typing import Any

from tuner.space.marks import mark
from tuner.space.reductions import Reduction
from tuner.space.registers import begin, ending, fused
from tuner.space.staging import below, summing
from tuner.space.vectors import largest_divisor

#: Narrower vectors than this are left to LLVM.
_MIN_LANES = 4
#: Steps that pass over sums in cache at once: 4096 x 512 took 49 µs, with 4 and 16 no less (Zen 4).
_STEPS = 8


def write_reduction(schedule: Any, block: Any, way: Reduction) -> None:
    """Raises what TVM raises where it cannot."""
    _give_loops(schedule)
    left = iter(list(schedule.get_loops(block)))
    parts = [[next(left) for _ in range(size)] for size in way.groups]
    loops = [fused(schedule, part) for part in parts]
    target = block
    if way.pieces > 1:
        first = way.summed[0]
        piece, _ = schedule.split(loops[first], [way.pieces, None])
        target = schedule.rfactor(piece, factor_axis=0)
        # Loops stay in their order, those of the first axis are two.
        pieces, *loops[first:] = list(schedule.get_loops(target))[first:]
        loops[:first] = list(schedule.get_loops(target))[:first]
    else:
        pieces = None
    outer = [] if pieces is None else [pieces]
    outer += [loops[place] for place in way.kept if place != way.contiguous]
    if way.has_columns:
        steps = [loops[place] for place in way.summed]
        _write_columns(schedule, target, way, outer=outer, steps=steps, columns=loops[way.contiguous])
    else:
        _write_along(schedule, target, way, outer=outer, along=loops[way.contiguous])
    if pieces is not None:
        _write_total(schedule, block, way)
        mark(schedule, target)
    mark(schedule, block)


def _give_loops(schedule: Any) -> None:
    """What follows a sum of everything is in no loop: TVM 0.27's rfactor fails beside such a block."""
    for each in schedule.get_child_blocks(schedule.get_sblock("root")):
        if not schedule.get_loops(each):
            schedule.add_unit_loop(each)


def _write_columns(
    schedule: Any, block: Any, way: Reduction, *, outer: list[Any], steps: list[Any], columns: Any
) -> None:
    columns, lanes = ending(schedule, columns, way.lanes, of_lanes=True)
    if way.streams:
        extent = int(schedule.get(steps[-1]).extent)
        steps[-1], inner = schedule.split(steps[-1], [None, largest_divisor(extent, at_most=_STEPS)])
        schedule.reorder(*outer, *steps, columns, inner, lanes)
    else:
        columns, inner = schedule.split(columns, [None, way.vectors])
        outer = [*outer, columns]
        schedule.reorder(*outer, *steps, inner, lanes)
    schedule.unroll(inner)
    schedule.vectorize(lanes)
    _share_out(schedule, outer, way)
    begin(schedule, schedule.decompose_reduction(block, steps[0]), n_loops=1 if way.streams else 2)


def _write_along(schedule: Any, block: Any, way: Reduction, *, outer: list[Any], along: Any) -> None:
    """Partial results are an axis of their own, and summed where they were."""
    _, within = schedule.split(along, [None, way.lanes * way.vectors])
    part = schedule.rfactor(within, factor_axis=len(schedule.get(block).writes[0].region))
    sums_of = summing(schedule, block)
    loops = list(schedule.get_loops(block))
    (across,) = [loop for loop, sums in zip(loops, sums_of, strict=True) if sums]
    outer = [loop for loop, sums in zip(loops, sums_of, strict=True) if not sums]
    if outer:
        schedule.reorder(*outer, across)
    cores = _share_out(schedule, outer, way)
    if cores is not None:
        schedule.compute_at(part, cores, preserve_unit_loops=True)
    inner = below(schedule, part, cores)
    flags = list(zip(inner, summing(schedule, part)[-len(inner) :], strict=True))
    steps = [loop for loop, sums in flags if sums]
    (within,) = [loop for loop, sums in flags if not sums and int(schedule.get(loop).extent) > 1]
    side, lanes = schedule.split(within, [None, way.lanes])
    schedule.reorder(*steps, side, lanes)
    schedule.unroll(side)
    schedule.vectorize(lanes)
    begin(schedule, schedule.decompose_reduction(part, steps[0]), n_loops=2)
    schedule.decompose_reduction(block, across)
    mark(schedule, part)


def _write_total(schedule: Any, block: Any, way: Reduction) -> None:
    """Of the pieces' results: little, for one core."""
    loops, sums_of = list(schedule.get_loops(block)), summing(schedule, block)
    (pieces,) = [loop for loop, sums in zip(loops, sums_of, strict=True) if sums]
    results = [loop for loop, sums in zip(loops, sums_of, strict=True) if not sums]
    lanes = math.gcd(int(schedule.get(results[-1]).extent), way.lanes) if results else 1
    if lanes < _MIN_LANES:
        schedule.decompose_reduction(block, pieces)
        return
    *results, last = results
    columns, vector = schedule.split(last, [None, lanes])
    schedule.reorder(*results, columns, pieces, vector)
    schedule.vectorize(vector)
    begin(schedule, schedule.decompose_reduction(block, pieces), n_loops=1)


def _share_out(schedule: Any, outer: Sequence[Any], way: Reduction) -> Any | None:
    """The loop over the cores, where there is one."""
    if not outer:
        return None
    cores = fused(schedule, outer)
    if way.is_parallel:
        schedule.parallel(cores)
    return cores
