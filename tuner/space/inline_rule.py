"""Stock's inlining, and beside it what a contraction's operand is computed by as a block of its own.

TVM inlines an activation or a normalisation into the product that reads it. There it is computed for each
multiplication, and no register tile fits; computed once it is a pass over the operand. Where the operand is
most of the work (a weight that is scaled, for one row) inlining is better: the search decides. Each such
block doubles the design spaces, so of many contractions in one function none is kept apart. In functions that
sum nothing what finds a line's elements at computed places is kept as well (tuner.space.fetched).
"""

import math
from typing import Any

from tuner.expressions import loads_of, places_in
from tuner.space.calls import has_call, has_root, parts_of
from tuner.space.contraction import Contraction
from tuner.space.fetched import fetches
from tuner.space.injective import stands_alone
from tuner.space.offering import Offered, is_crowded, names_of
from tuner.space.reshapes import inline_reshape

_LOADS = ("BufferLoad", "TensorLoad")
_SPATIAL = 0


def inline_rule(stock: Any, offered: Offered) -> Any:
    """A TVM ScheduleRule in place of `stock`, the target's AutoInline.

    `offered`: is told what is kept for forms of ours.
    """
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
            if _is_shared_down(sch, block):
                return [sch]
            name = str(sch.get(block).name_hint)
            kept = [sch.copy()] if not self.is_crowded and _is_kept(sch, block) else []
            inlined = list(stock.apply(sch, block))
            for each in inlined:
                inline_reshape(each, name)
            if not kept or any(name in names_of(each) for each in inlined):  # stock keeps it as well
                return inlined
            offered.keep(name)
            return [*inlined, *kept]

        def clone(self) -> Any:
            return inline_rule(stock.clone(), offered)

    return InlineRule()


def _is_shared_down(schedule: Any, block: Any) -> bool:
    """A function of what a reduction leaves of each column, read by many elements of that column.

    Of a row LLVM takes such a number out of the loop over its elements; of columns it stands in a vector, and
    TVM makes no vectors of calls: batches of 4 x 28 x 28 normalised, 96 channels last, took 88 to 112 µs
    inlined, 17 to 21 so (Zen 5).
    """
    node = schedule.get(block)
    if node.init is not None or not hasattr(node.body, "value"):
        return False
    if not (has_root(node) or has_call(node)):
        return False
    consumers = [schedule.get(each) for each in schedule.get_consumers(block)]
    return (
        bool(consumers)
        and all(_reads_down(each, node) for each in consumers)
        and _is_of_sums(schedule, block, _n_elements(node))
    )


def _is_of_sums(schedule: Any, block: Any, most: int) -> bool:
    """It is made of a reduction's results, each block on the way of at most so many elements."""
    producers = schedule.get_producers(block)
    nodes = [schedule.get(each) for each in producers]
    return any(node.init is not None for node in nodes) or any(
        _n_elements(node) <= most and _is_of_sums(schedule, each, most)
        for node, each in zip(nodes, producers, strict=True)
    )


def _reads_down(consumer: Any, node: Any) -> bool:
    """Neighbours along its last axis read other elements of the block's, each read several times."""
    spatial = [place for place, axis in enumerate(consumer.iter_vars) if int(axis.iter_type) == _SPATIAL]
    loads = [load for load in loads_of(consumer.body) if load.source.same_as(node.body.buffer)]
    last = set(spatial[-1:])  # none of a sum of everything
    return _n_elements(consumer) > _n_elements(node) and any(
        last & places_in(consumer, load.indices) for load in loads
    )


def _n_elements(node: Any) -> int:
    return math.prod(int(axis.dom.extent) for axis in node.iter_vars)


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
