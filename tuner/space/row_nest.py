"""Writes Rows into a schedule: the loops over the rows become one, below which the blocks follow one another.

`merge` makes that loop, not `compute_at`, which forgets the condition of a row that ends within a vector and
sums beyond it (TVM 0.27). `rows_of` answers for what `merge` does not ask: that no block reads other rows.
"""

from collections.abc import Sequence
from typing import Any

from tuner.space.calls import has_call, may_be_vectors
from tuner.space.index_maps import simplify_places
from tuner.space.marks import mark
from tuner.space.registers import begin, fused, peel
from tuner.space.rows import Rows, is_one_element, line_of, n_accumulators
from tuner.space.staging import below

_REDUCTION = 2
#: Partial results of a row that are summed one by one; those before them as vectors of so many.
FEW = 4


def write_rows(schedule: Any, rows: Rows) -> None:
    """Raises what TVM raises where it cannot."""
    blocks = [schedule.get_sblock(name) for name in rows.blocks]
    # Of a row that ends within a vector TVM does not see that a reshape's remainders change nothing, and each
    # lane is loaded by itself: eight groups of 13 channels of 66 x 66 took 105 µs so, since 27 (Zen 5).
    for block in blocks:
        simplify_places(schedule, block)
    parts = [_partial_results(schedule, block, rows) for block in blocks]
    nests = [each for block, before in zip(blocks, parts, strict=True) for each in (*before, block)]
    cores = _one_loop(schedule, nests, rows)
    for block, before in zip(blocks, parts, strict=True):
        if before:
            _write_vectors(schedule, before[0], cores, rows)
        else:
            _write_map(schedule, block, cores, rows)
    # Last, for then TVM no longer knows a sum under a condition for one. Such a sum begins with its first
    # step, which LLVM takes out of the loop.
    for block, before in zip(blocks, parts, strict=True):
        if before:
            nests += _write_ends(schedule, before[1], block, cores)
    for each in nests:
        mark(schedule, each)


def _partial_results(schedule: Any, block: Any, rows: Rows) -> tuple[Any, ...]:
    """Blocks of a vector or more for each row, and of FEW; none where nothing is reduced."""
    node = schedule.get(block)
    if node.init is None:
        return ()
    n_summed = sum(int(axis.iter_type) == _REDUCTION for axis in node.iter_vars)
    along = fused(schedule, list(schedule.get_loops(block))[-n_summed:])
    width = rows.lanes * n_accumulators(int(schedule.get(along).extent), rows.lanes, few=FEW)
    n_axes = len(node.writes[0].region)
    found = []
    for size in (width, FEW):
        _, within = schedule.split(along, [None, size])
        found.append(schedule.rfactor(within, factor_axis=n_axes))
        *_, along = schedule.get_loops(block)
    return tuple(found)


def _one_loop(schedule: Any, blocks: Sequence[Any], rows: Rows) -> Any:
    """Over the rows, which the cores share."""
    loops = [fused(schedule, list(schedule.get_loops(block))[: rows.n_axes]) for block in blocks]
    cores = schedule.merge(*loops) if len(loops) > 1 else loops[0]
    schedule.parallel(cores)
    return cores


def _write_vectors(schedule: Any, part: Any, cores: Any, rows: Rows) -> None:
    *_, steps, within = below(schedule, part, cores)
    side, lanes = schedule.split(within, [None, rows.lanes])
    schedule.unroll(side)
    schedule.vectorize(lanes)
    if rows.has_tail:
        peel(schedule, steps)


def _write_ends(schedule: Any, few: Any, block: Any, cores: Any) -> tuple[Any, Any]:
    """Blocks in which the sums of FEW results, and of each row, begin."""
    *_, steps, lanes = below(schedule, few, cores)
    schedule.vectorize(lanes)
    first = schedule.decompose_reduction(few, steps)
    begin(schedule, first, n_loops=1)
    *_, across = below(schedule, block, cores)
    return first, schedule.decompose_reduction(block, across)


def _write_map(schedule: Any, block: Any, cores: Any, rows: Rows) -> None:
    node = schedule.get(block)
    if is_one_element(node, rows.n_axes) or (rows.calls_are_scalar and has_call(node)):
        return
    if not may_be_vectors(node):
        return
    line = below(schedule, block, cores)[-line_of(node, rows.n_axes).n_axes :]
    steps, lanes = schedule.split(fused(schedule, line), [None, rows.lanes])
    schedule.vectorize(lanes)
    if rows.has_tail:
        peel(schedule, steps)
