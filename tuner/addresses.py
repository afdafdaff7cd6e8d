"""Where the elements of a buffer lie that indices name, at many points at once, and their cache sets.

A first cache keeps a line in a set that the line's address modulo 4 KiB tells.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

PERIOD_BYTES, LINE_BYTES = 4096, 64


class UnknownError(Exception):
    """An index or a loop that is more than sums, products and remainders of constant extents."""


def address_of(buffer: Any, indices: Sequence[Any], n_points: int) -> Ints:
    """Byte offsets from the buffer's first element, int64 [n_points]; its strides are compact."""
    at: Any = 0
    for extent, index in zip(buffer.shape, indices, strict=True):
        at = at * constant(extent) + index
    return np.broadcast_to(np.asarray(at * element_bytes(buffer), dtype=np.int64), (n_points,))


def element_bytes(buffer: Any) -> int:
    """1 at least."""
    return bytes_of(str(buffer.dtype))


def bytes_of(dtype: str) -> int:
    """Of an element; 1 at least."""
    from tvm import DataType

    return max(1, DataType(dtype).bits // 8)


def constant(extent: Any) -> int:
    """1 at least."""
    from tvm import tirx

    if not isinstance(extent, tirx.IntImm) or int(extent.value) < 1:
        raise UnknownError
    return int(extent.value)


def value_of(expression: Any, values: Mapping[Any, Any]) -> Any:
    """At all points at once."""
    from tvm import tirx

    if isinstance(expression, tirx.IntImm):
        return int(expression.value)
    if isinstance(expression, tirx.Var):
        if expression not in values:
            raise UnknownError
        return values[expression]
    if isinstance(expression, tirx.Add | tirx.Sub | tirx.Mul | tirx.FloorDiv | tirx.FloorMod):
        first, second = value_of(expression.a, values), value_of(expression.b, values)
        if isinstance(expression, tirx.Add):
            return first + second
        if isinstance(expression, tirx.Sub):
            return first - second
        if isinstance(expression, tirx.Mul):
            return first * second
        return first // second if isinstance(expression, tirx.FloorDiv) else first % second
    raise UnknownError


def lines_of(addresses: Ints) -> Ints:
    return np.unique(addresses // LINE_BYTES)


def fullest_set(addresses: Ints) -> int:
    """Lines that lie in one set, of the set that most of them share."""
    _, counts = np.unique(lines_of(addresses) % (PERIOD_BYTES // LINE_BYTES), return_counts=True)
    return int(counts.max(initial=0))
