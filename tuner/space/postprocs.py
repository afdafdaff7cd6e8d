"""TVM's default postprocs, of which two leave our tilings alone.

Our copies of a layout-free operand are the rewritten layout already; stock's RewriteLayout would rewrite what
they read, and cannot invert the fused axes. Where our sums begin is written; stock's RewriteReductionBlock
would fail at one under a condition, which TVM no longer knows for a sum.
"""

from collections.abc import Iterable
from typing import Any

from tuner.space.marks import is_ours

_NOT_FOR_OURS = frozenset({"RewriteLayout", "RewriteReductionBlock"})


def postprocs(stock: Iterable[Any]) -> list[Any]:
    """For the spaces of tuner.space.rules."""
    return [_unless_ours(item) if type(item).__name__ in _NOT_FOR_OURS else item for item in stock]


def _unless_ours(stock: Any) -> Any:
    from tvm.ir.utils import derived_object
    from tvm.s_tir.meta_schedule.postproc import PyPostproc

    @derived_object
    class UnlessOurs(PyPostproc):
        def _initialize_with_tune_context(self, context: Any) -> None:
            stock._initialize_with_tune_context(context)  # noqa: SLF001 - TVM calls it so

        def apply(self, sch: Any) -> bool:
            return is_ours(sch) or bool(stock.apply(sch))

        def clone(self) -> Any:
            return _unless_ours(stock.clone())

    return UnlessOurs()
