"""Stock's multi-level tilings, where TVM 0.27 gets them right.

None of a sum that goes on from what its output holds. Such a block (`C += A * B` on a parameter) begins
nothing. TVM sums it in a cache all the same, which holds nothing yet, and its postprocs refuse the tilings
without one: what was drawn of them was wrong.

And none with its consumer below the tiles where that reads two sums (the gates of an LSTM), or a sum and what
stands beside it (a softmax of masked scores): there TVM misses a producer, and gives the whole module up.

And none beside a form of ours where another space has a form of ours for that block as well: with what comes
before a product inlined into it there may be none, and stock's tiling would neither be begun nor vectorised.
"""

from typing import Any

from tuner.space.marks import is_marked, is_ours
from tuner.space.offering import Offered
from tuner.trace import TVM_ERRORS

_REDUCTION = 2
#: As TVM's own for every CPU, but for its consumers.
_STRUCTURE, _MAX_INNERMOST = "SSRSRS", 64


def tiling_rule(stock: Any, offered: Offered) -> Any:
    """A TVM ScheduleRule in place of `stock`, the target's MultiLevelTiling.

    `offered`: what the space's rules of ours had forms for.
    """
    from tvm.ir.utils import derived_object
    from tvm.s_tir.meta_schedule.schedule_rule import MultiLevelTiling, PyScheduleRule

    alone = MultiLevelTiling(structure=_STRUCTURE, max_innermost_factor=_MAX_INNERMOST)

    @derived_object
    class TilingRule(PyScheduleRule):
        def _initialize_with_tune_context(self, context: Any) -> None:
            for rule in (stock, alone):
                rule._initialize_with_tune_context(context)  # noqa: SLF001 - TVM calls it so

        def apply(self, sch: Any, block: Any) -> list[Any]:
            node = sch.get(block)
            if goes_on(node) or is_marked(node):
                return [sch]
            try:
                found = list(stock.apply(sch.copy(), block))
            except TVM_ERRORS:
                found = list(alone.apply(sch.copy(), block))
            tiles = len(found) != 1 or len(found[0].trace.insts) != len(sch.trace.insts)
            return [] if tiles and str(node.name_hint) in offered and is_ours(sch) else found

        def clone(self) -> Any:
            return tiling_rule(stock.clone(), offered)

    return TilingRule()


def goes_on(node: Any) -> bool:
    """A block that sums without a beginning; TVM takes it for one that may be neither parallel nor tiled."""
    return node.init is None and any(int(axis.iter_type) == _REDUCTION for axis in node.iter_vars)
