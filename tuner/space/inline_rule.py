"""Stock's inlining, and beside it what a contraction's operand is computed by as a block of its own.

TVM inlines an activation or a normalisation into the product that reads it. There it is computed for each
multiplication, and no register tile fits; computed once it is a pass over the operand. Where the operand is
most of the work (a weight that is scaled, for one row) inlining is better: the search decides. Each such
block doubles the design spaces, so of many contractions in one function none is kept apart. In functions that
sum nothing what finds a line's elements at computed places is kept as well (tuner.space.fetched).
"""

from typing import Any

from tuner.expressions import loads_of
from tuner.space.calls import parts_of
from tuner.space.contraction import Contraction
from tuner.space.fetched import fetches
from tuner.space.injective import stands_alone
from tuner.space.offering import is_crowded
from tuner.space.reshapes import inline_reshape

_LOADS = ("BufferLoad", "TensorLoad")


def inline_rule(stock: Any) -> Any:
    """A TVM ScheduleRule in place of `stock`, the target's AutoInline."""
    from tvm.ir.utils import derived_object
    from tvm.s_tir.meta_schedule.schedule_rule import PyScheduleRule

    @derived_object
    class InlineRule(PyScheduleRule):
        def __init__(self) -> None:
            super().__init__()
            self.is_crowded = False

        def _initialize_with_tune_context(self, context: Any) -> None:
            self.is_crowded = is_crowded(context.mod)
            stock._initialize_with_tune_context(context)  # noqa: SLF001 - TVM calls it so

        def apply(self, sch: Any, block: Any) -> list[Any]:
            name = str(sch.get(block).name_hint)
            kept = [sch.copy()] if not self.is_crowded and _is_kept(sch, block) else []
            inlined = list(stock.apply(sch, block))
            for each in inlined:
                inline_reshape(each, name)
            return [*inlined, *kept]

        def clone(self) -> Any:
            return inline_rule(stock.clone())

    return InlineRule()


def _is_kept(schedule: Any, block: Any) -> bool:
    """As a block of its own, in one more schedule."""
    return _computes_an_operand(schedule, block) or (
        stands_alone(schedule, block) and fetches(schedule, block)
    )


def _computes_an_operand(schedule: Any, block: Any) -> bool:
    """One contraction alone reads what the block makes of each element."""
    node = schedule.get(block)
    value = getattr(node.body, "value", None)
    if node.init is not None or value is None or _only_moves(value):
        return False
    consumers = list(schedule.get_consumers(block))
    return len(consumers) == 1 and _is_contraction(schedule.get(consumers[0]), node.body.buffer)


def _is_contraction(node: Any, operand: Any) -> bool:
    return Contraction.of(node) is not None and any(
        load.source.same_as(operand) for load in loads_of(node.body)
    )


def _only_moves(value: Any) -> bool:
    """A load, converted or zero outside of an image: contractions read through that."""
    while type(value).__name__ == "Cast":
        value = value.value
    names = [str(getattr(getattr(part, "op", None), "name", "")) for part in parts_of(value)]
    return type(value).__name__ in _LOADS or any(name.endswith("if_then_else") for name in names)
