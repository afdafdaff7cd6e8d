"""A contraction of a few steps, which waits for its results to be written: each line of them by itself.

LLVM makes vectors of a line, and ends it with what is left. Register tiles would pad columns that fill no
vectors, and write all results twice: 1432 x 1499, eleven deep, took 313 µs by tiles and 250 so, 1000 x 777,
one deep, 78 and 28 (an Intel with AVX-512).
"""

import math
from dataclasses import dataclass
from typing import Any

from tuner.space.contraction import Contraction
from tuner.space.epilogue import epilogue_of
from tuner.space.normal_form import STRUCTURE, TILED, fuse_sides, fuse_sides_of_epilogue
from tuner.space.registers import fused
from tuner.space.vectors import VectorUnit, largest_divisor

#: Steps, and those of all rows that go along a line together: all are written out. Of 13 and more tiles were
#: faster (700 x 77: 7.9 µs for 12.1).
_MAX_DEPTH, _MAX_STEPS = 12, 48
#: Tiles of whole vectors write nothing twice, and are as fast from there on: 6272 x 192, six deep, took 72 µs
#: by tiles and 68 so, 3136 x 256, eight deep, 59 and 87 (Zen 4).
_FEW_STEPS = 6
_MAX_ROWS = 6
#: Groups of rows, or pieces of lines, that the cores share; of fewer a single core would have all the work.
_LEAST_GROUPS = 8
#: Elements of the columns' operand that stay in a first cache while all rows pass, and of a piece at least:
#: eight images of 102 x 102, 7 to 41 channels, took 500 µs by whole lines, 388 so (425 with twice as many).
_NEAR, _LEAST_PIECE = 1 << 12, 96


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultLines:
    #: That go along side by side, and share the columns' operand.
    rows: int
    #: Columns that all rows pass before the next ones begin; None: whole lines.
    piece: int | None = None


def result_lines_of(contraction: Contraction, unit: VectorUnit) -> tuple[ResultLines, ...]:
    """The ways to write a contraction by lines; none where tiles do better, or operands do not lie so."""
    rows, columns, depth = contraction.extents
    deepest = _FEW_STEPS if columns % unit.lanes == 0 else _MAX_DEPTH
    if not contraction.columns_lie or columns < unit.lanes or depth > deepest:
        return ()
    n_batches = math.prod(axis.extent for axis in contraction.batch)
    most = min(_MAX_ROWS, _MAX_STEPS // depth)
    shared = min(most, rows * n_batches // _LEAST_GROUPS)
    found = [ResultLines(rows=largest_divisor(rows, at_most=shared))] if shared else []
    piece = largest_divisor(columns, at_most=_NEAR // depth)
    if _LEAST_PIECE <= piece < columns and n_batches * columns // piece >= _LEAST_GROUPS:
        found.append(ResultLines(rows=largest_divisor(rows, at_most=most), piece=piece))
    return tuple(found)


def write_result_lines(schedule: Any, block: Any, contraction: Contraction, lines: ResultLines) -> None:
    """Raises what TVM raises where it cannot."""
    epilogue = epilogue_of(schedule, block, contraction)
    fuse_sides(schedule, block, contraction)
    *batch, rows, columns, depth = schedule.get_loops(block)
    rows, row = schedule.split(rows, [None, lines.rows])
    shared, within = [*batch, rows], []
    if lines.piece is not None:
        pieces, columns = schedule.split(columns, [None, lines.piece])
        shared, within = [*batch, pieces], [rows]
    schedule.reorder(*shared, *within, columns, depth, row)
    schedule.parallel(fused(schedule, shared))
    for loop in (depth, row):
        schedule.unroll(loop)
    if epilogue is not None:
        fuse_sides_of_epilogue(schedule, epilogue, contraction)
        schedule.reverse_compute_at(epilogue.block, columns, preserve_unit_loops=True)
        schedule.unroll(schedule.get_loops(epilogue.block)[-2])
        schedule.annotate(epilogue.block, TILED, STRUCTURE)
    begun = schedule.decompose_reduction(block, depth)
    schedule.unroll(schedule.get_loops(begun)[-1])
    schedule.annotate(block, TILED, STRUCTURE)
