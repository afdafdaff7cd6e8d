"""The schedule rule that offers register-tiled forms of small windows beside stock's tiling."""

from typing import Any

from tuner.space.contraction import Contraction
from tuner.space.contraction_rule import is_untouched
from tuner.space.vectors import vector_unit
from tuner.space.windows import windows_of, write_window
from tuner.trace import TVM_ERRORS


def window_rule() -> Any:
    """A fresh TVM ScheduleRule."""
    from tvm.ir.utils import derived_object
    from tvm.s_tir.meta_schedule.schedule_rule import PyScheduleRule

    @derived_object
    class WindowRule(PyScheduleRule):
        def __init__(self) -> None:
            super().__init__()
            self.target: Any = None

        def _initialize_with_tune_context(self, context: Any) -> None:
            self.target = context.target

        def apply(self, sch: Any, block: Any) -> list[Any]:
            return [sch, *passed_over(sch, block, self.target)]

        def clone(self) -> Any:
            return window_rule()

    return WindowRule()


def passed_over(schedule: Any, block: Any, target: Any) -> list[Any]:
    """A schedule for each way to pass the window over its outputs; none where the block is no window."""
    from tvm import DataType

    node = schedule.get(block)
    if not is_untouched(schedule, block) or Contraction.of(node) is not None:
        return []
    bits = int(DataType(str(node.writes[0].source.dtype)).bits)
    found = []
    for window in windows_of(schedule, block, vector_unit(target, bits=bits)):
        candidate = schedule.copy()
        try:
            write_window(candidate, candidate.get_sblock(node.name_hint), window)
        except TVM_ERRORS:
            continue
        found.append(candidate)
    return found
