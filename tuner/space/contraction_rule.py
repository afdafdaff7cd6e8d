"""The schedule rule that offers register-tiled, packed, padded forms of a contraction beside stock's tiling.

Each plan that TVM can write is one more design space; the untouched schedule goes on to stock's rules. A
block that is no contraction, or that something has scheduled before, is left alone.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from tuner.space.contraction import Contraction, grouped_axis, needs_simplifying
from tuner.space.dots import dots_of, write_dots
from tuner.space.index_maps import index_map
from tuner.space.normal_form import TILED
from tuner.space.plans import plans
from tuner.space.tiling import tile
from tuner.space.vectors import vector_unit
from tuner.trace import TVM_ERRORS

#: Writes one form of a contraction: (schedule, block, *, lanes).
_Write = Callable[..., None]


def contraction_rule() -> Any:
    """A fresh TVM ScheduleRule."""
    from tvm.ir.utils import derived_object
    from tvm.s_tir.meta_schedule.schedule_rule import PyScheduleRule

    @derived_object
    class ContractionRule(PyScheduleRule):
        def __init__(self) -> None:
            super().__init__()
            self.target: Any = None

        def _initialize_with_tune_context(self, context: Any) -> None:
            self.target = context.target

        def apply(self, sch: Any, block: Any) -> list[Any]:
            return [sch, *tiled(sch, block, self.target)]

        def clone(self) -> Any:
            return contraction_rule()

    return ContractionRule()


def tiled(schedule: Any, block: Any, target: Any) -> list[Any]:
    """A schedule for each plan that fits; none where the block is no contraction."""
    name = schedule.get(block).name_hint
    if not is_untouched(schedule, block):
        return []
    normal = _normalised(schedule, name)
    contraction = None if normal is None else Contraction.of(normal.get(normal.get_sblock(name)))
    if normal is None or contraction is None:
        return []
    unit = vector_unit(target, bits=contraction.bits)
    writes: list[_Write] = [
        *(partial(tile, contraction=contraction, plan=plan) for plan in plans(contraction, unit)),
        *(partial(write_dots, contraction=contraction, dots=dots) for dots in dots_of(contraction, unit)),
    ]
    found = []
    for write in writes:
        candidate = normal.copy()
        try:
            write(candidate, candidate.get_sblock(name), lanes=unit.lanes)
        except TVM_ERRORS:
            continue
        found.append(candidate)
    return found


def is_untouched(schedule: Any, block: Any) -> bool:
    """Every loop around it is bound to an iterator of its own."""
    node = schedule.get(block)
    return (
        node.init is not None
        and TILED not in node.annotations
        and len(schedule.get_loops(block)) == len(node.iter_vars)
    )


def _normalised(schedule: Any, name: str) -> Any | None:
    """A copy in which indices are simplified and groups are an axis of their own."""
    result = schedule.copy()
    block = result.get_sblock(name)
    try:
        group = grouped_axis(result.get(block))
        if group is not None:
            _split_axis(result, block, *group)
        if needs_simplifying(result.get(block)):
            _same_axes(result, block)
    except TVM_ERRORS:
        return None
    return result


def _same_axes(schedule: Any, block: Any) -> None:
    """A block layout that changes nothing makes TVM simplify the indices."""
    places = range(len(schedule.get(block).iter_vars))
    schedule.transform_block_layout(block, index_map(places, lambda v: [v[place] for place in places]))


def _split_axis(schedule: Any, block: Any, split: int, size: int) -> None:
    """Axis `split` becomes two: its groups, which come first, and the place within a group."""
    places = range(len(schedule.get(block).iter_vars))

    def final(v: dict[int, Any]) -> list[Any]:
        return [v[split] // size, *(v[place] % size if place == split else v[place] for place in places)]

    schedule.transform_block_layout(block, index_map(places, final))
