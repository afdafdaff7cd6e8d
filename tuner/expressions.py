"""What TVM's expressions are made of: the loads, iterators, sums and divisions in them."""

from collections.abc import Iterable
from typing import Any


def places_in(block: Any, indices: Iterable[Any]) -> frozenset[int]:
    """Places of the iterators that expressions use."""
    from tvm.tirx.analysis import undefined_vars

    found = [variable for index in indices for variable in undefined_vars(index, [])]
    return frozenset(
        place
        for place, axis in enumerate(block.iter_vars)
        if any(axis.var.same_as(variable) for variable in found)
    )


def summands(expression: Any) -> list[Any]:
    if is_a(expression, "Add"):
        return [*summands(expression.a), *summands(expression.b)]
    return [expression]


def loads_of(statement: Any) -> list[Any]:
    """Every load of a store's value."""
    value = getattr(statement, "value", None)
    return [] if value is None else _loads_in(value)


def _loads_in(value: Any) -> list[Any]:
    if is_load(value):
        return [value]
    names = ("a", "b", "value", "condition", "true_value", "false_value")
    parts = [getattr(value, name, None) for name in names]
    parts += list(getattr(value, "args", ()))
    return [load for part in parts if part is not None and hasattr(part, "ty") for load in _loads_in(part)]


def has_division(expression: Any) -> bool:
    if is_a(expression, "FloorDiv") or is_a(expression, "FloorMod"):
        return True
    return any(has_division(part) for part in _children(expression))


def divided_by(expression: Any) -> tuple[Any, int] | None:
    """(variable, constant) of the first `variable // constant`."""
    if is_a(expression, "FloorDiv") and type(expression.a).__name__ == "Var" and is_a(expression.b, "IntImm"):
        return expression.a, int(expression.b.value)
    for part in _children(expression):
        found = divided_by(part)
        if found is not None:
            return found
    return None


def _children(expression: Any) -> list[Any]:
    return [part for name in ("a", "b") if (part := getattr(expression, name, None)) is not None]


def is_a(expression: Any, name: str) -> bool:
    return type(expression).__name__ == name


def is_load(expression: Any) -> bool:
    return type(expression).__name__ in ("BufferLoad", "TensorLoad") and hasattr(expression, "indices")
