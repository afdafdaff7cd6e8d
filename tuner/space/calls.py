"""What is better left to LLVM than written in vectors by us: calls of the C library, numbers of places.

Blocks may call a function of the C library for each element, which no vector instruction does. As vectors
their elements are taken apart and put together again around each call: a softmax of 1024 x 1024
took 1696 µs so, as a plain loop 1269 (Intel, AVX-512).
"""

from collections.abc import Iterator
from typing import Any

from tuner.expressions import is_load

#: Functions that LLVM has as vector instructions; others are calls, element by element.
_VECTOR_CALLS = frozenset(
    {
        "sqrt",
        "rsqrt",
        "fabs",
        "floor",
        "ceil",
        "round",
        "trunc",
        "nearbyint",
        "if_then_else",
        "likely",
        "fma",
        "reinterpret",
    }
)


def may_be_vectors(node: Any) -> bool:
    """TVM 0.27 cannot build a vector that is rounded to float8; unrolled, LLVM takes long over it."""
    return not any(str(region.source.dtype).startswith("float8") for region in node.writes)


def gains_from_vectors(node: Any) -> bool:
    """It may be vectors, and is no calls for their elements."""
    return may_be_vectors(node) and not has_call(node)


def has_root(node: Any) -> bool:
    """It divides by the root of an element in one call, which TVM 0.27 writes no vectors of."""
    return any(name == "rsqrt" for name in _calls(node))


def has_call(node: Any) -> bool:
    """It computes something of an element by a function that LLVM has no instruction for."""
    return any(name not in _VECTOR_CALLS for name in _calls(node))


def _calls(node: Any) -> Iterator[str]:
    """Names of what it calls."""
    for each in parts_of(node.body):
        if type(each).__name__ == "Call":
            yield str(getattr(each.op, "name", "")).rpartition(".")[2]  # as `tirx.sqrt`, `prim.ceil`


def counts_places(node: Any) -> bool:
    """It computes with a number that follows from an element's place in its line, as an average's count.

    In a plain loop TVM knows what the place may be, and often finds one number for all of them; of a vector
    it does not, and divides.
    """
    if not node.iter_vars:
        return False
    last = node.iter_vars[-1].var
    casts = [each for each in parts_of(node.body) if type(each).__name__ == "Cast"]
    return any(
        any(part.same_as(last) for part in parts_of(cast.value))
        and not any(is_load(part) for part in parts_of(cast.value))
        for cast in casts
    )


def parts_of(node: Any) -> Iterator[Any]:
    """A statement or an expression, and all that it is made of."""
    yield node
    for name in ("a", "b", "value", "condition", "true_value", "false_value", "body"):
        part = getattr(node, name, None)
        if part is not None and hasattr(part, "same_as"):
            yield from parts_of(part)
    for name in ("args", "seq"):
        for part in getattr(node, name, None) or ():
            yield from parts_of(part)
