"""The product of two operands that a block sums, whatever it is cast from, or guarded by."""

from typing import Any

from tuner.expressions import is_a, is_load

_SPATIAL, _REDUCTION = 0, 2


def product_of(block: Any, *, guarded: bool) -> tuple[Any, tuple[Any, Any]] | None:
    """The store and the two loads that are multiplied; None where the block does anything else."""
    from tvm.tirx import BufferStore

    store = block.body
    if block.init is None or not isinstance(store, BufferStore):
        return None
    if any(int(axis.iter_type) not in (_SPATIAL, _REDUCTION) for axis in block.iter_vars):
        return None
    value = store.value
    if not is_a(value, "Add"):
        return None
    for total, product in ((value.a, value.b), (value.b, value.a)):
        if is_load(total) and total.source.same_as(store.buffer) and is_a(product, "Mul"):
            loads = tuple(_operand(side, guarded=guarded) for side in (product.a, product.b))
            if all(is_load(load) for load in loads) and _constant_extents(block):
                return store, (loads[0], loads[1])
    return None


def guards_of(block: Any) -> list[Any]:
    """Conditions outside of which a load of the block counts as zero."""
    return [part for call in _guarded_in(block.body.value) for part in _conjuncts(call.args[0])]


def _constant_extents(block: Any) -> bool:
    return all(is_a(axis.dom.extent, "IntImm") for axis in block.iter_vars)


def _operand(value: Any, *, guarded: bool) -> Any:
    value = _uncast(value)
    return _operand(value.args[1], guarded=True) if guarded and _is_guarded(value) else value


def _uncast(value: Any) -> Any:
    return value.value if is_a(value, "Cast") else value


def _is_guarded(value: Any) -> bool:
    """It is zero where its condition does not hold."""
    is_choice = is_a(value, "Call") and str(getattr(value.op, "name", "")) == "prim.if_then_else"
    return is_choice and getattr(value.args[2], "value", None) == 0


def _guarded_in(value: Any) -> list[Any]:
    if _is_guarded(value):
        return [value, *_guarded_in(value.args[1])]
    parts = (getattr(value, name, None) for name in ("a", "b", "value"))
    return [found for part in parts if hasattr(part, "ty") for found in _guarded_in(part)]


def _conjuncts(condition: Any) -> list[Any]:
    if is_a(condition, "And"):
        return [*_conjuncts(condition.a), *_conjuncts(condition.b)]
    return [condition]
