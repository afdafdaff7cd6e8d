"""Modules for tests, contractions most of all, our schedules of them, and what a program computes."""

import json

import numpy as np

from checks.trace import check_trace
from tuner.module import canonical_module, save_module
from tuner.search.options import SearchOptions
from tuner.search.setup import open_setup
from tuner.space.contraction_rule import tiled
from tuner.space.marks import is_ours
from tuner.space.vectors import VectorUnit
from tuner.target import make_target
from tuner.trace import apply_trace, canonical_text
from tuner.tvm_light import load_tvm

tvm = load_tvm()
te = tvm.te

AVX2 = VectorUnit(lanes=8, registers=16)
AVX512 = VectorUnit(lanes=16, registers=32)


def computed(function, *shapes):
    """What `function(topi, *inputs)` gives for inputs of these shapes, x0 and so on."""
    from tvm import topi

    inputs = [te.placeholder(shape, name=f"x{at}") for at, shape in enumerate(shapes)]
    return canonical_module(te.create_prim_func([*inputs, function(topi, *inputs)]))


def matmul(rows, columns, depth, *, transposed=False, epilogue=False):
    a = te.placeholder((rows, depth), name="A")
    b = te.placeholder((columns, depth) if transposed else (depth, columns), name="B")
    k = te.reduce_axis((0, depth), name="k")
    c = te.compute(
        (rows, columns), lambda i, j: te.sum(a[i, k] * (b[j, k] if transposed else b[k, j]), axis=k), name="C"
    )
    if not epilogue:
        return canonical_module(te.create_prim_func([a, b, c]))
    bias = te.placeholder((columns,), name="bias")
    d = te.compute((rows, columns), lambda i, j: te.max(c[i, j] + bias[j], te.const(0, "float32")), name="D")
    return canonical_module(te.create_prim_func([a, b, bias, d]))


def capsule_product(*, capsules, columns):
    """Columns of two axes: only those of one capsule lie side by side."""
    a, b = te.placeholder((64, 96), name="A"), te.placeholder((capsules, 96, columns), name="B")
    k = te.reduce_axis((0, 96), name="k")
    c = te.compute((64, capsules, columns), lambda i, j, o: te.sum(a[i, k] * b[j, k, o], axis=k), name="C")
    return canonical_module(te.create_prim_func([a, b, c]))


def blocked_convolution(size, channels, filters):
    """3x3, padded; sixteen channels side by side, of images and of filters."""
    from tvm import topi

    x = te.placeholder((1, channels // 16, size, size, 16), name="X")
    w = te.placeholder((filters // 16, channels // 16, 3, 3, 16, 16), name="W")
    layout = "NCHW16c"
    with tvm.target.Target("llvm"):
        out = topi.nn.conv2d_NCHWc(x, w, (1, 1), (1, 1), (1, 1), layout, layout)
    return canonical_module(te.create_prim_func([x, w, out]))


def convolution(
    size, channels, filters, *, stride, padding, dilation, groups, nchw=False, kernel=3, relu=False
):
    from tvm import topi
    from tvm.s_tir.meta_schedule.testing import te_workload

    if nchw:
        x = te.placeholder((1, channels, size, size + 1), name="X")
        w = te.placeholder((filters, channels, kernel, kernel), name="W")
        out = topi.nn.conv2d_nchw(x, w, stride, padding, dilation)
    else:
        x, w, out = te_workload.conv2d_nhwc(
            1, size, size + 1, channels, filters, kernel, stride, padding, dilation, groups
        )
    return canonical_module(te.create_prim_func([x, w, topi.nn.relu(out) if relu else out]))


def spaces(mod, target):
    """Our schedules of the last block that reduces, before anything was sampled anew."""
    schedule = tvm.s_tir.Schedule(mod, seed=1, debug_mask="none")
    root = schedule.get_sblock("root")
    (block,) = [b for b in schedule.get_child_blocks(root) if schedule.get(b).init is not None]
    return tiled(schedule, block, make_target(target))


def spaces_of_function(mod, target):
    """Those of ours, of all its blocks."""
    setup = open_setup(
        module=save_module(mod), target=target, space={"rules": "tilefarm"}, seed=1, options=SearchOptions()
    )
    return [space for space in setup.design_spaces if is_ours(space)]


def outputs(mod, target, arrays):
    """LLVM optimizes nothing: a quarter of the tests' time. Benchmarks compare numbers with all it does."""
    tensors = [tvm.runtime.tensor(array) for array in arrays]
    tvm.compile(mod, make_target({**target, "opt-level": 0}))["main"](*tensors)
    return tensors[-1].numpy()


def inputs(mod):
    generator = np.random.default_rng(0)
    return [
        generator.standard_normal([int(extent) for extent in p.ty.shape]).astype("float32")
        for p in mod["main"].params
    ]


def assert_same_numbers(mod, target, *, seed, at_most=2, found=None):
    """Of our spaces, with decisions drawn anew, against the untuned program; traces pass the check."""
    found = spaces(mod, target) if found is None else found
    assert found
    arrays = inputs(mod)
    expected = outputs(mod, target, arrays)
    rng = np.random.default_rng(seed)
    for place in rng.permutation(len(found))[:at_most]:
        instructions, _ = json.loads(canonical_text(found[place].trace))
        schedule = apply_trace([instructions, []], mod, rand_state=1 + seed)
        trace = json.loads(canonical_text(schedule.trace))
        check_trace(trace)
        got = outputs(schedule.mod, target, arrays)
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())
