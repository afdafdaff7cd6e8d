"""How a rule of ours enters the design space: forms of a block beside the schedule that it was asked about.

Each form is one more design space; the untouched schedule goes on to stock's rules.
"""

from collections.abc import Callable, Iterable
from typing import Any

from tuner.space.normal_form import TILED
from tuner.trace import TVM_ERRORS

#: (schedule, block, target) -> schedules; none where the rule has nothing to say of the block.
Forms = Callable[[Any, Any, Any], list[Any]]


def offering(forms: Forms) -> Any:
    """A fresh TVM ScheduleRule that offers `forms`."""
    from tvm.ir.utils import derived_object
    from tvm.s_tir.meta_schedule.schedule_rule import PyScheduleRule

    @derived_object
    class Offering(PyScheduleRule):
        def __init__(self) -> None:
            super().__init__()
            self.target: Any = None

        def _initialize_with_tune_context(self, context: Any) -> None:
            self.target = context.target

        def apply(self, sch: Any, block: Any) -> list[Any]:
            return [sch, *forms(_in_order(sch, block), block, self.target)]

        def clone(self) -> Any:
            return offering(forms)

    return Offering()


def written(schedule: Any, name: str, writes: Iterable[Callable[[Any, Any], None]]) -> list[Any]:
    """A copy of the schedule for each of `writes(copy, block)` that TVM can carry out on the block `name`."""
    found = []
    for write in writes:
        candidate = schedule.copy()
        try:
            write(candidate, candidate.get_sblock(name))
        except TVM_ERRORS:
            continue
        found.append(candidate)
    return found


def _in_order(schedule: Any, block: Any) -> Any:
    """The schedule, or a copy whose loops stand in the order of the iterators that they are bound to.

    A product may be written with its loops as (rows, depth, columns); only in order has a block a layout that
    can be transformed.
    """
    loops = list(schedule.get_loops(block))
    realize = schedule.get(loops[-1]).body if loops else None
    variables = [schedule.get(loop).loop_var for loop in loops]
    bound = [
        place
        for value in getattr(realize, "iter_values", ())
        for place, variable in enumerate(variables)
        if variable.same_as(value)
    ]
    if bound == sorted(bound) or sorted(bound) != list(range(len(loops))):
        return schedule
    ordered = schedule.copy()
    try:
        ordered.reorder(*(loops[place] for place in bound))
    except TVM_ERRORS:
        return schedule
    return ordered


def is_untouched(schedule: Any, block: Any) -> bool:
    """Every loop around it is bound to an iterator of its own."""
    node = schedule.get(block)
    return (
        node.init is not None
        and TILED not in node.annotations
        and len(schedule.get_loops(block)) == len(node.iter_vars)
    )
