"""Steps that every nest around a register tile shares."""

from collections.abc import Sequence
from typing import Any, Final

#: Smaller nests run sooner on one core than the others wake up.
MIN_PARALLEL_ELEMENTS: Final = 1 << 15
#: A buffer within a loop that has fewer is on the stack, and so in registers where LLVM knows each place of
#: it; for others TVM 0.27 asks its runtime for memory, each time anew.
STACK_BYTES: Final = 1024
#: TVM's LoopPartition gives what a condition leaves of this loop a nest of its own, without the condition.
PEELED: Final = "pragma_loop_partition_hint"
#: Elements of the shortest line that is a vector by itself.
_SHORTEST: Final = 8


def sum_in_registers(
    schedule: Any, block: Any, tile: tuple[Any, ...], *, start: Any, taps: Any | None = None
) -> None:
    """`tile`: the innermost loops of a reduction's results, the last a vector; its sums begin before `start`.

    `taps`: a loop of the reduction within them.
    """
    *unrolled, lanes = tile
    for loop in unrolled if taps is None else (*unrolled, taps):
        schedule.unroll(loop)
    schedule.vectorize(lanes)
    begin(schedule, schedule.decompose_reduction(block, start), n_loops=len(tile))


def take_from_registers(schedule: Any, loops: Sequence[Any], *, lanes: int, ends: bool = False) -> None:
    """Unrolls the loops of a block that takes a register tile to its place; the last is of vectors.

    `ends`: the last vector of the last tile is a lesser one.
    """
    *unrolled, last = loops
    last, within = schedule.split(last, [None, lanes])
    if ends:
        several = [last] if int(schedule.get(last).extent) > 1 else []
        peel(schedule, *several, within)
    for loop in (*unrolled, last):
        schedule.unroll(loop)
    schedule.vectorize(within)


def begin(schedule: Any, begun: Any, *, n_loops: int) -> None:
    """Unrolls the `n_loops` innermost loops of the block in which sums begin; the last is a vector."""
    *unrolled, lanes = tuple(schedule.get_loops(begun))[-n_loops:]
    for loop in unrolled:
        schedule.unroll(loop)
    if str(schedule.get(begun).writes[0].source.dtype) == "bfloat16":
        schedule.unroll(lanes)  # TVM 0.27 cannot build the store of a vector of one such number
    else:
        schedule.vectorize(lanes)


def peel(schedule: Any, *loops: Any) -> None:
    """The last, lesser piece of these loops has a nest of its own; of a fused loop TVM does not part it."""
    for loop in loops:
        schedule.annotate(loop, PEELED, 1)


def ending(schedule: Any, loop: Any, size: int, *, of_lanes: bool) -> tuple[Any, Any]:
    """Loops over pieces and within one; the last may have fewer steps, and a nest of its own.

    `of_lanes`: a piece is a vector, or the rows of one, and TVM would take it apart, lane by lane.
    """
    ends = int(schedule.get(loop).extent) % size > 0
    pieces, within = schedule.split(loop, [None, size])
    if ends:
        peel(schedule, pieces, *([within] if of_lanes else []))
    return pieces, within


def write_short_line(schedule: Any, loop: Any, *, lanes: int) -> bool:
    """Makes a vector and a lesser one, or that alone, of a line of 8 elements to two vectors: if it is one.

    LLVM would write out its elements, and make vectors across the lines that it scatters: 5120 lines of 28,
    normalised, took 42 µs so, 9.1 as vectors of 16 and of 12; of 12 21 and 7.5, of 9 18 and 7.3; of 7 7.7
    and 13.8, of 31 15 and 12 (Zen 5). On AVX2, which scatters none, both are level.
    """
    extent = int(schedule.get(loop).extent)
    is_short = _SHORTEST <= extent < 2 * lanes
    if is_short:
        if extent > lanes:
            _, loop = ending(schedule, loop, lanes, of_lanes=True)
        schedule.vectorize(loop)
    return is_short


def fused(schedule: Any, loops: Sequence[Any]) -> Any:
    """One loop of one or more."""
    return schedule.fuse(*loops) if len(loops) > 1 else loops[0]


def sampled(schedule: Any, loop: Any, *, n: int, max_innermost: int) -> Any:
    """The `n` loops of a loop that is split as the search decides."""
    factors = schedule.sample_perfect_tile(loop, n=n, max_innermost_factor=max_innermost)
    return schedule.split(loop, factors)
