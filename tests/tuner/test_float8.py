"""Results in float8: TVM can build the programs of our space, and they are right."""

import json

import ml_dtypes
import numpy as np
import pytest

from checks.space import named_space
from checks.trace import check_trace
from tests.tuner.driving import open_search
from tuner.module import canonical_module
from tuner.space.finish_rule import is_ours
from tuner.target import make_target
from tuner.trace import apply_trace, canonical_text
from tuner.tvm_light import load_tvm

tvm = load_tvm()
te = tvm.te

OURS, _ = named_space("tilefarm")


def product(dtype, out):
    """As a quantised layer ends: its sums are rounded to `out`."""
    a, b = te.placeholder((24, 16), dtype, name="A"), te.placeholder((16, 40), dtype, name="B")
    k = te.reduce_axis((0, 16), name="k")
    c = te.compute((24, 40), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    if dtype == out:
        return canonical_module(te.create_prim_func([a, b, c]))
    d = te.compute((24, 40), lambda i, j: c[i, j].astype(out), name="D")
    return canonical_module(te.create_prim_func([a, b, d]))


def total(dtype):
    a, b = te.placeholder((16, 64), dtype, name="A"), te.placeholder((16, 64), dtype, name="B")
    return canonical_module(
        te.create_prim_func([a, b, te.compute((16, 64), lambda i, j: a[i, j] + b[i, j], name="C")])
    )


def results(mod, target, arrays):
    tensors = [tvm.runtime.tensor(array) for array in arrays]
    tvm.compile(mod, make_target(target))["main"](*tensors)
    return tensors[-1].numpy()


@pytest.mark.parametrize(
    ("mod", "has_ours"),
    [
        (lambda: product("float32", "float8_e4m3fn"), True),
        (lambda: product("float8_e5m2", "float8_e5m2"), False),
        (lambda: total("float8_e4m3fn"), False),
    ],
    ids=["epilogue", "product", "element by element"],
)
def test_results_in_float8_are_built_and_right(llvm, mod, has_ours):
    mod = mod()
    candidates = open_search("random", mod, llvm, space=OURS).suggest(24, round_=0).candidates
    programs = [apply_trace(candidate.trace, mod) for candidate in candidates]
    kinds = [[each for each in programs if is_ours(each) == ours] for ours in (True, False)]
    assert bool(kinds[0]) == has_ours
    assert kinds[1]
    generator = np.random.default_rng(0)
    arrays = [
        generator.integers(-1, 2, [int(extent) for extent in param.ty.shape]).astype(
            np.dtype(getattr(ml_dtypes, str(param.ty.dtype), str(param.ty.dtype)))
        )
        for param in mod["main"].params
    ]
    expected = results(mod, llvm, arrays)
    for schedule in (*kinds[0][:3], *kinds[1][:2]):
        check_trace(json.loads(canonical_text(schedule.trace)))
        got = results(schedule.mod, llvm, arrays)
        # In TVM 0.27 a zero that was float8 is some ten-thousandths.
        np.testing.assert_allclose(got.astype("float32"), expected.astype("float32"), atol=1e-2)
