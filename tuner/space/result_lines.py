"""A contraction of a few steps, which waits for its results to be written: each line of them by itself.

LLVM makes vectors of a line, and ends it with what is left. Register tiles would pad columns that fill no
vectors, and write all results twice: 1432 x 1499, eleven deep, took 313 µs by tiles and 250 so, 1000 x 777,
one deep, 78 and 28 (an Intel with AVX-512). Columns that lie along the depth, weights of a dense layer, are
copied first: 141 x 1024, two deep, with a bias and an activation, 17 to 20 µs by tiles and 10 so (Zen 3).
"""

import math
from dataclasses import dataclass
from typing import Any

from tuner.space.contraction import Contraction
from tuner.space.epilogue import epilogue_of
from tuner.space.index_maps import index_map
from tuner.space.marks import mark
from tuner.space.normal_form import copied, fuse_sides, fuse_sides_of_epilogue
from tuner.space.registers import fused
from tuner.space.vectors import VectorUnit, largest_divisor

#: Steps, and those of all rows that go along a line together: all are written out. Of 13 and more tiles were
#: faster (700 x 77: 7.9 µs for 12.1).
_MAX_DEPTH, _MAX_STEPS = 12, 48
#: Tiles of whole vectors write nothing twice, and are as fast from there on: 6272 x 192, six deep, took 72 µs
#: by tiles and 68 so, 3136 x 256, eight deep, 59 and 87 (Zen 4). With columns that are turned as well: 1024 x
#: 130, twelve deep, 37 and 53, 4096 x 64, three deep, 38 and 26 (Zen 3).
_FEW_STEPS = 6
_MAX_ROWS = 6
#: Groups of rows, or pieces of lines, that the cores share; of fewer a single core would have all the work.
_LEAST_GROUPS = 8
#: Elements of the columns' operand that stay in a first cache while all rows pass, and of a piece at least:
#: eight images of 102 x 102, 7 to 41 channels, took 500 µs by whole lines, 388 so (425 with twice as many).
_NEAR, _LEAST_PIECE = 1 << 12, 96
#: Elements of a copy from which on the cores share it; a core is called in the time of some thousands.
_SHARED_COPY = 1 << 14
#: Of its columns that one core takes at once.
_MOST_GATHERED = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultLines:
    #: That go along side by side, and share the columns' operand.
    rows: int
    #: Columns that all rows pass before the next ones begin; None: whole lines.
    piece: int | None = None
    #: The columns' operand lies along the depth (weights of a dense layer): its copy lies along the columns.
    turns: bool = False


def result_lines_of(contraction: Contraction, unit: VectorUnit) -> tuple[ResultLines, ...]:
    """The ways to write a contraction by lines; none where tiles do better, or operands do not lie so."""
    rows, columns, depth = contraction.extents
    turns = _may_turn(contraction)
    deepest = _FEW_STEPS if turns or columns % unit.lanes == 0 else _MAX_DEPTH
    if not (contraction.columns_lie or turns) or columns < unit.lanes or depth > deepest:
        return ()
    n_batches = math.prod(axis.extent for axis in contraction.batch)
    most = min(_MAX_ROWS, _MAX_STEPS // depth)
    shared = min(most, rows * n_batches // _LEAST_GROUPS)
    found = [ResultLines(rows=largest_divisor(rows, at_most=shared), turns=turns)] if shared else []
    piece = largest_divisor(columns, at_most=_NEAR // depth)
    if _LEAST_PIECE <= piece < columns and n_batches * columns // piece >= _LEAST_GROUPS:
        found.append(ResultLines(rows=largest_divisor(rows, at_most=most), piece=piece, turns=turns))
    return tuple(found)


def _may_turn(contraction: Contraction) -> bool:
    """Columns lie side by side in the output alone, and a copy repeats none of their operand's elements."""
    lies = contraction.columns[-1].place in contraction.vectors.contiguous
    return contraction.writes_rows and not (lies or contraction.wraps[1] or contraction.vectors.slides)


def write_result_lines(schedule: Any, block: Any, contraction: Contraction, lines: ResultLines) -> None:
    """Raises what TVM raises where it cannot."""
    epilogue = epilogue_of(schedule, block, contraction)
    copy = copied(schedule, block, contraction, of_rows=False) if lines.turns else None
    fuse_sides(schedule, block, contraction)
    if copy is not None:
        _write_turned(schedule, block, copy, contraction)
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
        mark(schedule, epilogue.block)
    begun = schedule.decompose_reduction(block, depth)
    schedule.unroll(schedule.get_loops(begun)[-1])
    mark(schedule, block)


def _write_turned(schedule: Any, block: Any, copy: Any, contraction: Contraction) -> None:
    """B'[b, n, k] becomes B'[b, k, n]: vectors of the columns' operand are gathered once for all rows."""
    place = contraction.vectors.read
    n = len(schedule.get(block).reads[place].source.shape) - 2
    turned = index_map(range(n + 2), lambda v: [*(v[at] for at in range(n)), v[n + 1], v[n]])
    schedule.transform_layout(block, ("read", place), turned)
    *batch, columns, depth = schedule.get_loops(copy)
    extents = [int(schedule.get(loop).extent) for loop in (*batch, columns, depth)]
    width = largest_divisor(extents[-2], at_most=_MOST_GATHERED)
    columns, within = schedule.split(columns, [None, width])
    schedule.reorder(columns, depth, within)
    schedule.unroll(depth)
    if math.prod(extents) >= _SHARED_COPY:
        schedule.parallel(fused(schedule, [*batch, columns]))
    mark(schedule, copy)
