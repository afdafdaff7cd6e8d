"""Whether an output is the reference's, up to the rounding that another order of summation may bring."""

import math

import numpy as np

from workers.inputs import Array, numpy_dtype

#: The least tolerance by dtype: vectorised exp, tanh and the like differ by that much without any sum.
_FLOORS = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-2, "bfloat16": 4e-2}
#: Of float8, and the most for any: zeros in place of the whole output differ by 1, and half of a sum by 0.5.
_MOST = 0.25
#: Sums of uniform numbers, rounded at each step in one order and in none, differ by 0.2 to 0.5 eps * sqrt(n).
_SAFETY = 4.0


def tolerance(dtype: str, reduction_length: int) -> float:
    """Largest allowed difference, relative to the reference's element or to its largest element.

    Integers and booleans must be equal: 0. For floats the rounding errors of a sum of n terms grow like
    eps * sqrt(n) when they are independent (Higham, Accuracy and Stability of Numerical Algorithms, section
    2.8); we allow four times that, never less than the dtype's floor, and never so much that everything
    would pass.
    """
    held = numpy_dtype(dtype)
    if held.kind in "iub":
        return 0.0
    eps = 2.0 ** -_mantissa_bits(dtype)
    rounding = _SAFETY * eps * math.sqrt(max(1, reduction_length))
    return min(_MOST, max(_FLOORS.get(dtype, _MOST), rounding))


def difference(name: str, got: Array, expected: Array, *, dtype: str, reduction_length: int) -> str | None:
    """None where the output passes; else one line with where, how much and how often it differs."""
    allowed = tolerance(dtype, reduction_length)
    if allowed == 0.0:
        bad = got != expected
        if not bad.any():
            return None
        gap = np.abs(got.astype(np.float64) - expected.astype(np.float64))
        return _describe(name, got, expected, bad=bad, gap=gap, allowed=allowed)
    if _plainly_near(got, expected, allowed):
        return None
    wide_got, wide_expected = got.astype(np.float64), expected.astype(np.float64)
    with np.errstate(invalid="ignore"):
        gap = np.abs(wide_got - wide_expected)
        finite = np.isfinite(wide_expected)
        scale = float(np.abs(wide_expected[finite]).max()) if finite.any() else 0.0
        near = gap <= allowed * np.maximum(np.abs(wide_expected), scale)
    same = (wide_got == wide_expected) | (np.isnan(wide_got) & np.isnan(wide_expected))
    bad = ~(same | (near & finite))
    if not bad.any():
        return None
    return _describe(name, wide_got, wide_expected, bad=bad, gap=gap, allowed=allowed)


def _plainly_near(got: Array, expected: Array, allowed: float) -> bool:
    """True where every element is finite and near: what `difference` finds out, in three passes.

    Anything else, a NaN on either side included, makes a comparison false and is looked at in full.
    """
    if got.dtype not in (np.float32, np.float64):
        return False
    with np.errstate(invalid="ignore", over="ignore"):
        scale = max(float(expected.max(initial=0.0)), -float(expected.min(initial=0.0)))
        gap = np.subtract(got, expected)
        largest = max(float(gap.max(initial=0.0)), -float(gap.min(initial=0.0)))
    return math.isfinite(scale) and largest <= allowed * scale


def _describe(name: str, got: Array, expected: Array, *, bad: Array, gap: Array, allowed: float) -> str:
    count, total = int(bad.sum()), bad.size
    nan_count = int(np.isnan(got[bad]).sum()) if got.dtype.kind == "f" else 0
    ranked = np.where(bad & np.isfinite(gap), gap, -1.0)
    worst = int(np.argmax(ranked)) if ranked.max() >= 0.0 else int(np.argmax(bad))
    where = [int(index) for index in np.unravel_index(worst, bad.shape)]
    text = (
        f"output {name!r} is {got.flat[worst]} instead of {expected.flat[worst]} at {where}; "
        f"{count} of {total} elements differ by more than {allowed:.2g}"
    )
    if ranked.max() >= 0.0:
        largest = float(gap.flat[worst])
        base = abs(float(expected.flat[worst]))
        relative = f", relative {largest / base:.3g}" if base > 0.0 else ""
        text += f"; largest absolute difference {largest:.3g}{relative}"
    return text + (f"; {nan_count} are NaN" if nan_count else "")


def _mantissa_bits(dtype: str) -> int:
    stored = {"float64": 52, "float32": 23, "float16": 10, "bfloat16": 7}
    if dtype in stored:
        return stored[dtype]
    return 2 if "e5m2" in dtype else 3
