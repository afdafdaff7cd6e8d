"""In every type that a worker can fill, TVM can build the programs of our space, and they are right."""

import json

import ml_dtypes
import numpy as np
import pytest

from checks.space import named_space
from checks.trace import check_trace
from tests.tuner.driving import open_search
from tuner.module import canonical_module
from tuner.space.marks import is_ours
from tuner.target import make_target
from tuner.trace import apply_trace, canonical_text
from tuner.tvm_light import load_tvm

tvm = load_tvm()
te = tvm.te

OURS, _ = named_space("tilefarm")


def product(dtype, *, sums=None, out=None):
    """Summed in `sums`; as a quantised layer ends, then made `out`."""
    sums = sums or dtype
    a, b = te.placeholder((24, 16), dtype, name="A"), te.placeholder((16, 40), dtype, name="B")
    k = te.reduce_axis((0, 16), name="k")
    c = te.compute(
        (24, 40), lambda i, j: te.sum(a[i, k].astype(sums) * b[k, j].astype(sums), axis=k), name="C"
    )
    if out is None:
        return canonical_module(te.create_prim_func([a, b, c]))
    d = te.compute((24, 40), lambda i, j: c[i, j].astype(out), name="D")
    return canonical_module(te.create_prim_func([a, b, d]))


def total(dtype):
    a, b = te.placeholder((16, 64), dtype, name="A"), te.placeholder((16, 64), dtype, name="B")
    return canonical_module(
        te.create_prim_func([a, b, te.compute((16, 64), lambda i, j: a[i, j] + b[i, j], name="C")])
    )


def masked():
    """Elements where a mask is set, and indices of 64 bits."""
    a = te.placeholder((24, 16), "float32", name="A")
    mask, b = te.placeholder((24, 16), "bool", name="M"), te.placeholder((16, 40), "float32", name="B")
    k = te.reduce_axis((0, 16), name="k")
    kept = te.compute(
        (24, 16), lambda i, j: tvm.tirx.Select(mask[i, j], a[i, j], te.const(0, "float32")), name="K"
    )
    c = te.compute((24, 40), lambda i, j: te.sum(kept[i, k] * b[k, j], axis=k), name="C")
    return canonical_module(te.create_prim_func([a, mask, b, c], index_dtype_override="int64"))


def results(mod, target, arrays):
    tensors = [tvm.runtime.empty(array.shape, str(param.ty.dtype)) for array, param in arrays]
    for tensor, (array, _) in zip(tensors, arrays, strict=True):
        tensor.copyfrom(array)
    tvm.compile(mod, make_target(target))["main"](*tensors)
    return tensors[-1].numpy().astype("float64")


@pytest.mark.parametrize(
    ("mod", "has_ours"),
    [
        *((lambda of=of: product(of), True) for of in ("float16", "bfloat16", "float64", "int64")),
        *((lambda of=of: product(of, sums="int32"), True) for of in ("int8", "uint8")),
        (masked, True),
        (lambda: product("float8_e4m3fn", sums="float32"), True),
        (lambda: product("float32", out="float8_e4m3fn"), True),
        (lambda: product("float8_e5m2"), False),
        (lambda: total("float8_e4m3fn"), False),
    ],
    ids=[
        "float16", "bfloat16", "float64", "int64", "int8", "uint8", "mask", "of float8", "to float8",
        "float8 alone", "float8 element by element",
    ],
)  # fmt: skip
def test_programs_are_built_and_right(llvm, mod, has_ours):
    mod = mod()
    candidates = open_search("random", mod, llvm, space=OURS).suggest(24, round_=0).candidates
    programs = [apply_trace(candidate.trace, mod) for candidate in candidates]
    kinds = [[each for each in programs if is_ours(each) == ours] for ours in (True, False)]
    assert bool(kinds[0]) == has_ours
    assert kinds[1]
    generator = np.random.default_rng(0)
    arrays = []
    for param in mod["main"].params:
        dtype = np.dtype(getattr(ml_dtypes, str(param.ty.dtype), str(param.ty.dtype)))
        shape = [int(extent) for extent in param.ty.shape]
        arrays.append((generator.integers(-1, 2, shape).astype(dtype), param))
    expected = results(mod, llvm, arrays)
    # Whole numbers as small as these are exact; but a float8 zero is some ten-thousandths in TVM 0.27.
    allowed = 1e-2 if "float8" in str(mod) else 0.0
    for schedule in (*kinds[0][:3], *kinds[1][:2]):
        check_trace(json.loads(canonical_text(schedule.trace)))
        np.testing.assert_allclose(results(schedule.mod, llvm, arrays), expected, rtol=0.0, atol=allowed)
