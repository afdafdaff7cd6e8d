"""Steps that every nest around a register tile shares."""

from typing import Any


def sum_in_registers(schedule: Any, block: Any, tile: tuple[Any, ...], *, start: Any) -> None:
    """`tile`: the innermost loops of a reduction, the last a vector; its sums begin before `start`."""
    _unrolled(schedule, tile)
    begun = schedule.decompose_reduction(block, start)
    _unrolled(schedule, tuple(schedule.get_loops(begun))[-len(tile) :])


def sampled(schedule: Any, loop: Any, *, max_innermost: int) -> Any:
    """The two loops of a loop that is split as the search decides."""
    factors = schedule.sample_perfect_tile(loop, n=2, max_innermost_factor=max_innermost)
    return schedule.split(loop, factors)


def _unrolled(schedule: Any, tile: tuple[Any, ...]) -> None:
    *unrolled, lanes = tile
    for loop in unrolled:
        schedule.unroll(loop)
    schedule.vectorize(lanes)
