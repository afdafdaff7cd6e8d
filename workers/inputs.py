"""Inputs and outputs as numpy arrays: what every child, here or on another host, fills in identically.

The generator is counter based (Philox), keyed by workload, seed and parameter, so no input travels. It
knows no TVM.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
#: Floats are drawn from [-1, 1); from [0.5, 1.5) where that leads to NaN (log, sqrt of negative numbers).
_SIGNED = (-1.0, 1.0)
_POSITIVE = (0.5, 1.5)
#: Significant bits of types that hold no long sum: two orders of one differ by more than a fault would.
_FEW_BITS = {"float8_e4m3fn": 4, "float8_e5m2": 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One buffer parameter of a PrimFunc."""

    name: str
    shape: tuple[int, ...]
    #: As TVM writes it: float32, bfloat16, bool, …
    dtype: str

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, obj: dict[str, Any]) -> Self:
        return cls(name=obj["name"], shape=tuple(obj["shape"]), dtype=obj["dtype"])


@dataclass(frozen=True, slots=True, kw_only=True)
class InputRule:
    """From what the inputs of a workload follow."""

    module_sha256: str
    input_seed: int
    #: Integers are drawn from [low, high), as far as the dtype holds them.
    integer_low: int
    integer_high: int
    positive_floats: bool = False
    #: (parameter's position, low, high): integers that have a range of their own, such as indices.
    ranges: tuple[tuple[int, int, int], ...] = ()

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """Raises ValueError for what numpy and ml_dtypes cannot hold."""
    special = getattr(ml_dtypes, dtype, None)
    try:
        return np.dtype(dtype if special is None else special)
    except TypeError as error:
        raise ValueError(f"no array can be made of dtype {dtype!r}") from error


def make_inputs(
    parameters: Sequence[Parameter], rule: InputRule, *, reduction_length: int = 1
) -> list[Array]:
    """One array for each parameter, outputs included: what a kernel leaves unwritten is then the same too.

    `reduction_length`: of the workload's longest sum.
    """
    return [_fill(parameter, rule, index, reduction_length) for index, parameter in enumerate(parameters)]


def _fill(parameter: Parameter, rule: InputRule, index: int, reduction_length: int) -> Array:
    name = f"{rule.module_sha256}:{rule.input_seed}:{index}"
    key = int.from_bytes(hashlib.sha256(name.encode()).digest()[:16], "little")
    generator = np.random.Generator(np.random.Philox(key=key))
    dtype = numpy_dtype(parameter.dtype)
    if dtype.kind == "b":
        return generator.integers(0, 2, parameter.shape, dtype=np.uint8).astype(dtype)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        own = {position: (low, high) for position, low, high in rule.ranges}
        low, high = own.get(index, (rule.integer_low, rule.integer_high))
        low = max(low, int(limits.min))
        high = max(low + 1, min(high, int(limits.max)))
        return generator.integers(low, high, parameter.shape, dtype=dtype)
    bits = _FEW_BITS.get(parameter.dtype)
    if bits is not None and reduction_length > 1 and not rule.positive_floats:
        return _summed_exactly(generator, parameter.shape, bits, reduction_length).astype(dtype)
    low_float, high_float = _POSITIVE if rule.positive_floats else _SIGNED
    wide = np.float64 if dtype == np.float64 else np.float32
    drawn = generator.random(parameter.shape, dtype=wide)
    return (drawn * wide(high_float - low_float) + wide(low_float)).astype(dtype, copy=False)


def _summed_exactly(
    generator: np.random.Generator, shape: tuple[int, ...], bits: int, reduction_length: int
) -> Array:
    """Whole numbers whose products can be summed in any order: the sums, too, fit into so many bits.

    A sum of n products of two such numbers deviates by their variance times sqrt(n); four times that is to be
    2 ** bits. Where -1, 0 and 1 vary too much, most of them are made zeros.
    """
    variance = 2**bits / 4 / math.sqrt(reduction_length)
    # Of whole numbers up to `most`, all alike, it is most * (most + 1) / 3.
    most = max(1, int(math.sqrt(3 * variance + 0.25) - 0.5))
    drawn = generator.integers(-most, most, shape, endpoint=True).astype(np.float32)
    kept = generator.random(shape, dtype=np.float32) < variance / (most * (most + 1) / 3)
    return drawn * kept
