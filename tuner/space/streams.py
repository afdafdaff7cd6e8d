"""A contraction of few rows whose other operand lies along its columns: that operand streams through once.

Each of its elements is used for a few rows alone, so that such a kernel waits for memory, which gives most
to who reads long pieces in order. A core takes a long piece of the columns, several steps of the depth at
a time, while the sums of the piece wait in its first cache. A register tile would read few columns of a step
and go on to the next, a page further.
"""

import math
from dataclasses import dataclass
from typing import Any

from tuner.space.contraction import Contraction
from tuner.space.epilogue import epilogue_of
from tuner.space.normal_form import STRUCTURE, TILED, fuse_sides, fuse_sides_of_epilogue
from tuner.space.registers import begin, sampled
from tuner.space.staging import write_tail
from tuner.space.vectors import VectorUnit, largest_divisor

#: Eight rows of 2048 x 2048 took 387 µs by register tiles, 515 as a stream; four of 4096 x 2048 884 and 657;
#: one of 5504 x 2048 1270 and 819 (Zen 4).
_MAX_ROWS = 4
#: Steps of the depth at a time: sums are loaded and stored once for each.
_STEPS = (8, 16)
_MIN_LANES = 4
#: Vectors of a piece of the columns, of each row: half of a first cache.
_MAX_VECTORS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    #: Of the depth, at a time.
    steps: int
    lanes: int


def streams_of(contraction: Contraction, unit: VectorUnit) -> tuple[Stream, ...]:
    """The ways to write a contraction as a stream; none where its operands do not lie so."""
    rows, columns, depth = contraction.extents
    lanes = math.gcd(columns, unit.lanes)
    if not contraction.columns_lie or rows > _MAX_ROWS or lanes < _MIN_LANES:
        return ()
    steps = dict.fromkeys(largest_divisor(depth, at_most=most) for most in _STEPS)
    return tuple(Stream(steps=size, lanes=lanes) for size in steps if size > 1)


def write_stream(schedule: Any, block: Any, contraction: Contraction, stream: Stream) -> None:
    """Raises what TVM raises where it cannot."""
    epilogue = epilogue_of(schedule, block, contraction)
    fuse_sides(schedule, block, contraction)
    *batch, rows, columns, depth = schedule.get_loops(block)
    vectors, lanes = schedule.split(columns, [None, stream.lanes])
    outer, vectors = sampled(schedule, vectors, n=2, max_innermost=_MAX_VECTORS)
    depth, step = schedule.split(depth, [None, stream.steps])
    schedule.reorder(*batch, outer, depth, vectors, step, rows, lanes)
    cores = schedule.fuse(*batch, outer) if batch else outer
    schedule.parallel(cores)
    for loop in (step, rows):
        schedule.unroll(loop)
    schedule.vectorize(lanes)
    if epilogue is not None:
        fuse_sides_of_epilogue(schedule, epilogue, contraction)
        schedule.reverse_compute_at(epilogue.block, cores, preserve_unit_loops=True)
        write_tail(schedule, epilogue.block, after=cores, lanes=stream.lanes, columns=stream.lanes)
        schedule.annotate(epilogue.block, TILED, STRUCTURE)
    begin(schedule, schedule.decompose_reduction(block, depth), n_loops=2)
    schedule.annotate(block, TILED, STRUCTURE)
