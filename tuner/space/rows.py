"""Rows in one pass: reductions along contiguous rows, and what is computed of them, one row after the other.

Softmax, normalisations, plain sums: several blocks share their first axes, the rows. They follow one another
within one row, which stays in the first cache; a reduction keeps vectors of partial results, which rfactor
makes an axis of its own, because a single accumulator waits for itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tuner.space.calls import has_call, parts_of
from tuner.space.contraction import Contraction, summands
from tuner.space.normal_form import STRUCTURE, TILED
from tuner.space.registers import begin, may_be_vectors
from tuner.space.staging import below
from tuner.space.vectors import VectorUnit

_SPATIAL, _REDUCTION = 0, 2
#: Vectors that may be accumulated side by side, and the cycles that one step of a chain waits.
_ACCUMULATORS, _LATENCY = range(1, 9), 4
#: Rows shorter than this many vectors are left to others.
_MIN_VECTORS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """One way to pass over the rows that some blocks share."""

    #: By name, producers first; the last is computed where the others are needed.
    blocks: tuple[str, ...]
    #: How many first axes the blocks share.
    n_axes: int
    lanes: int
    #: Blocks that call a function for each element stay scalar.
    calls_are_scalar: bool


def rows_of(schedule: Any, block: Any, unit: VectorUnit) -> tuple[Rows, ...]:
    """The ways to pass over the rows that `block` reduces; none where it reduces no rows."""
    n_axes, names = _shared_rows(schedule, block, unit)
    first = next((name for name in names if _reduces(schedule, name)), None)
    # Of a chain's reductions one brings the forms, or they would be there twice.
    if first != str(schedule.get(block).name_hint):
        return ()
    calls = any(has_call(schedule.get(schedule.get_sblock(name))) for name in names)
    return tuple(
        Rows(blocks=names, n_axes=n_axes, lanes=unit.lanes, calls_are_scalar=scalar)
        for scalar in ((True, False) if calls else (False,))
    )


def is_of_rows(schedule: Any, block: Any, unit: VectorUnit) -> bool:
    """Whether the block is one of those that `rows_of` passes over, asked of this one or of another."""
    _, names = _shared_rows(schedule, block, unit)
    return bool(names)


def write_rows(schedule: Any, rows: Rows) -> None:
    """Raises what TVM raises where it cannot."""
    blocks = [schedule.get_sblock(name) for name in rows.blocks]
    parts = [_partial(schedule, block, rows) for block in blocks]
    loops = list(schedule.get_loops(blocks[-1]))[: rows.n_axes]
    cores = schedule.fuse(*loops) if len(loops) > 1 else loops[0]
    schedule.parallel(cores)
    for block, part in zip(blocks[::-1], parts[::-1], strict=True):
        for each in (None if block is blocks[-1] else block, part):
            if each is not None:
                schedule.compute_at(each, cores, preserve_unit_loops=True)
    for block, part in zip(blocks, parts, strict=True):
        if part is None:
            _write_map(schedule, block, cores, rows)
        else:
            _write_sum(schedule, part, block, cores, rows)
            schedule.annotate(part, TILED, STRUCTURE)
        schedule.annotate(block, TILED, STRUCTURE)


def _partial(schedule: Any, block: Any, rows: Rows) -> Any | None:
    """The block of partial results, a vector or more for each row; None where nothing is reduced."""
    node = schedule.get(block)
    if _n_rows(node) is None:
        return None
    *_, along = schedule.get_loops(block)
    width = rows.lanes * n_accumulators(int(schedule.get(along).extent), rows.lanes)
    _, within = schedule.split(along, [None, width])
    return schedule.rfactor(within, factor_axis=len(node.writes[0].region))


def n_accumulators(extent: int, lanes: int) -> int:
    """Vectors of partial results along a row of whole vectors.

    More make the chain of steps shorter, and the sum across them at its end longer.
    """
    fitting = [n for n in _ACCUMULATORS if extent % (n * lanes) == 0]
    return min(fitting, key=lambda n: _LATENCY * (extent / (n * lanes) + n * lanes))


def _write_sum(schedule: Any, part: Any, block: Any, cores: Any, rows: Rows) -> None:
    axes = schedule.get(part).iter_vars
    inner = below(schedule, part, cores)[-len(axes) :]
    (steps,) = [loop for loop, axis in zip(inner, axes, strict=True) if int(axis.iter_type) == _REDUCTION]
    (within,) = [loop for loop in inner if loop is not steps and int(schedule.get(loop).extent) > 1]
    units = [loop for loop in inner if loop is not steps and loop is not within]
    side, lanes = schedule.split(within, [None, rows.lanes])
    schedule.reorder(*units, steps, side, lanes)
    schedule.unroll(side)
    schedule.vectorize(lanes)
    begin(schedule, schedule.decompose_reduction(part, steps), n_loops=2)
    (across,) = [loop for loop in below(schedule, block, cores) if int(schedule.get(loop).extent) > 1]
    schedule.decompose_reduction(block, across)


def _write_map(schedule: Any, block: Any, cores: Any, rows: Rows) -> None:
    node = schedule.get(block)
    if _is_scalar(node, rows.n_axes) or (rows.calls_are_scalar and has_call(node)):
        return
    if not may_be_vectors(node):
        return
    *_, along = below(schedule, block, cores)
    _, lanes = schedule.split(along, [None, rows.lanes])
    schedule.vectorize(lanes)


def _shared_rows(schedule: Any, block: Any, unit: VectorUnit) -> tuple[int, tuple[str, ...]]:
    """How many axes the rows are that a block reduces, and its chain of blocks, maybe none."""
    node = schedule.get(block)
    n_axes = _n_rows(node)
    if n_axes is None or Contraction.of(node) is not None:
        return 0, ()
    return n_axes, _chain(schedule, block, n_axes, unit.lanes)


def _chain(schedule: Any, block: Any, n_axes: int, lanes: int) -> tuple[str, ...]:
    """With all blocks of its rows, producers first; none where one but the last is read elsewhere too."""
    found: dict[str, Any] = {}

    def visit(each: Any) -> None:
        node = schedule.get(each)
        if str(node.name_hint) in found or not _passes(node, n_axes, lanes):
            return
        found[str(node.name_hint)] = each
        for neighbour in (*schedule.get_producers(each), *schedule.get_consumers(each)):
            visit(neighbour)

    visit(block)
    names = _producers_first(schedule, found)
    read_by = [_names(schedule, schedule.get_consumers(found[name])) for name in names[:-1]]
    return names if all(readers and readers <= set(names) for readers in read_by) else ()


def _producers_first(schedule: Any, found: dict[str, Any]) -> tuple[str, ...]:
    before = {
        name: _names(schedule, schedule.get_producers(each)) & set(found) for name, each in found.items()
    }
    names: list[str] = []
    while len(names) < len(found):
        names.append(next(n for n in found if n not in names and before[n] <= set(names)))
    return tuple(names)


def _names(schedule: Any, blocks: Sequence[Any]) -> set[str]:
    return {str(schedule.get(block).name_hint) for block in blocks}


def _reduces(schedule: Any, name: str) -> bool:
    return schedule.get(schedule.get_sblock(name)).init is not None


def _n_rows(node: Any) -> int | None:
    """How many axes a reduction along its last axis leaves, unit axes at their end not counted."""
    kinds = [int(axis.iter_type) for axis in node.iter_vars]
    if node.init is None or kinds[-1:] != [_REDUCTION] or set(kinds[:-1]) != {_SPATIAL}:
        return None
    n_axes = len(kinds) - 1
    while n_axes and int(node.iter_vars[n_axes - 1].dom.extent) == 1:
        n_axes -= 1
    return n_axes or None


def _passes(node: Any, n_axes: int, lanes: int) -> bool:
    """Its first axes are the rows; along the last one it reads side by side, in whole vectors."""
    axes = list(node.iter_vars)
    kinds = [int(axis.iter_type) for axis in axes]
    if len(axes) < n_axes or set(kinds[:n_axes]) != {_SPATIAL} or _n_rows(node) not in (None, n_axes):
        return False
    if _is_scalar(node, n_axes):
        return node.init is None
    extent = int(axes[-1].dom.extent)
    units = all(int(axis.dom.extent) == 1 for axis in axes[n_axes:-1])
    whole = units and extent % lanes == 0 and extent >= _MIN_VECTORS * lanes
    return whole and kinds[-1] in (_SPATIAL, _REDUCTION) and _lies_along(node, axes[-1].var)


def _is_scalar(node: Any, n_axes: int) -> bool:
    """One element for each row."""
    return all(int(axis.dom.extent) == 1 for axis in node.iter_vars[n_axes:])


def _lies_along(node: Any, variable: Any) -> bool:
    """Whatever the axis indexes lies contiguous along it."""
    from tvm.tirx.analysis import undefined_vars

    regions = [each for each in parts_of(node.body) if hasattr(each, "indices") and len(each.indices)]
    for each in regions:
        *outer, last = each.indices
        if any(variable.same_as(found) for index in outer for found in undefined_vars(index, [])):
            return False
        uses = any(variable.same_as(found) for found in undefined_vars(last, []))
        if uses and not any(variable.same_as(summand) for summand in summands(last)):
            return False
    return bool(regions)
