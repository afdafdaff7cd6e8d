"""Stock's multi-level tilings, but none of a sum that goes on from what its output holds.

Such a block (`C += A * B` on a parameter) begins nothing. TVM 0.27 sums it in a cache all the same, which
holds nothing yet, and its postprocs refuse the tilings without one: what was drawn of them was wrong.
"""

from typing import Any

_REDUCTION = 2


def in_place_rule(stock: Any) -> Any:
    """A TVM ScheduleRule in place of `stock`, the target's MultiLevelTiling."""
    from tvm.ir.utils import derived_object
    from tvm.s_tir.meta_schedule.schedule_rule import PyScheduleRule

    @derived_object
    class InPlaceRule(PyScheduleRule):
        def _initialize_with_tune_context(self, context: Any) -> None:
            stock._initialize_with_tune_context(context)  # noqa: SLF001 - TVM calls it so

        def apply(self, sch: Any, block: Any) -> list[Any]:
            return [sch] if goes_on(sch.get(block)) else list(stock.apply(sch, block))

        def clone(self) -> Any:
            return in_place_rule(stock.clone())

    return InPlaceRule()


def goes_on(node: Any) -> bool:
    """A block that sums without a beginning; TVM takes it for one that may be neither parallel nor tiled."""
    return node.init is None and any(int(axis.iter_type) == _REDUCTION for axis in node.iter_vars)
