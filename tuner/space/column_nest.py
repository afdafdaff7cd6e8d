"""Writes Columns into a schedule: loops over groups of them become one, in which blocks follow one another.

`merge` makes that loop, as in `tuner.space.row_nest`. What is reduced, or made of each column by itself, goes
on within: (cores: outer columns, groups); vectors' groups of one; what a block has beside columns; vectors
side by side; lanes. In streams what a block has beside columns comes before the vectors' groups.
"""

from collections.abc import Sequence
from typing import Any

from tuner.space.axes import Axis
from tuner.space.calls import has_call, has_root
from tuner.space.columns import Columns
from tuner.space.index_maps import fusing
from tuner.space.marks import mark
from tuner.space.registers import begin, fused, peel
from tuner.space.staging import below

_REDUCTION = 2
_MAX_STEPS = 64


def write_columns(schedule: Any, columns: Columns) -> None:
    """Raises what TVM raises where it cannot."""
    blocks = [schedule.get_sblock(name) for name in columns.blocks]
    nests = [
        _nest(schedule, block, kept, columns)
        for block, kept in zip(blocks, columns.blocks.values(), strict=True)
    ]
    if not columns.has_tail:
        factors = schedule.sample_perfect_tile(nests[0][-1], n=2, max_innermost_factor=_MAX_STEPS)
        nests = [[*around, *schedule.split(groups, factors)] for *around, groups in nests]
    loops = [_around(schedule, nest) for nest in nests]
    cores = schedule.merge(*loops)
    if columns.is_parallel:
        schedule.parallel(cores)
    for block in blocks:
        _write_vectors(schedule, block, cores, columns)
        mark(schedule, block)


def _around(schedule: Any, nest: Sequence[Any]) -> Any:
    """One loop around the last."""
    *around, inner = nest
    return fused(schedule, around) if around else schedule.add_unit_loop(inner)


def _nest(schedule: Any, block: Any, kept: Sequence[int], columns: Columns) -> list[Any]:
    """The loops around the groups of a line's vectors, and over these."""
    node = schedule.get(block)
    axes = [Axis(place=place, extent=int(axis.dom.extent)) for place, axis in enumerate(node.iter_vars)]
    inner = [axis for axis in axes if axis.place not in kept and _is_within(node.iter_vars[axis.place])]
    outer, line = kept[: -columns.n_in_line], kept[-columns.n_in_line :]
    units = [axis for axis in axes if axis not in inner and axis.place not in kept]
    parts = [[axis] for axis in (*units, *(axes[place] for place in outer))]
    parts += [[axes[place] for place in line], *([axis] for axis in inner)]
    schedule.transform_block_layout(block, fusing(range(len(axes)), parts))
    loops = list(schedule.get_loops(block))
    n_around = len(units) + len(outer)
    around, within = loops[:n_around], loops[n_around + 1 :]
    split = schedule.split(loops[n_around], [None, columns.vectors, columns.lanes])
    groups, vectors, lanes = split
    schedule.reorder(groups, *within, vectors, lanes)
    return [*around, groups]


def _is_within(axis: Any) -> bool:
    """Of an axis beside the columns: unit axes go around."""
    return int(axis.iter_type) == _REDUCTION or int(axis.dom.extent) > 1


def _write_vectors(schedule: Any, block: Any, cores: Any, columns: Columns) -> None:
    node = schedule.get(block)
    steps, *within, vectors, lanes = below(schedule, block, cores)
    if columns.streams and within:
        schedule.reorder(*within, steps)
    if columns.has_tail:
        peel(schedule, steps, vectors, lanes)
    if not (has_root(node) or (columns.calls_are_scalar and has_call(node))):
        schedule.unroll(vectors)
        schedule.vectorize(lanes)
    if node.init is not None:
        begun = schedule.decompose_reduction(block, within[0])
        begin(schedule, begun, n_loops=2)
        mark(schedule, begun)
