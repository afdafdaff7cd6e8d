"""What stands beside a tiled contraction is finished where it may be, and never costs the design space."""

# ruff: noqa: N803, N805, N812  # TVMScript is not Python: its names are the paper's

import json

import numpy as np
import pytest
from tvm.script import ir as I
from tvm.script import tirx as T

from checks.space import named_space
from tests.tuner.contractions import computed, convolution, inputs, outputs, spaces
from tests.tuner.driving import open_search
from tuner.module import canonical_module
from tuner.space.finish_rule import _with_long_lines
from tuner.space.marks import is_ours
from tuner.space.padding import write_lines
from tuner.space.rules import with_ours
from tuner.target import make_target
from tuner.trace import apply_trace
from tuner.tvm_light import load_tvm

tvm = load_tvm()
te = tvm.te

OURS, _ = named_space("tilefarm")


@I.ir_module
class Doubled:
    """A product, and a parameter that is updated in place."""

    @T.prim_func(s_tir=True)
    def main(
        A: T.Buffer((32, 32), "float32"),
        B: T.Buffer((32, 32), "float32"),
        X: T.Buffer((256, 256), "float32"),
        C: T.Buffer((32, 32), "float32"),
    ):
        for i, j, k in T.grid(32, 32, 32):
            with T.sblock("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
        for i, j in T.grid(256, 256):
            with T.sblock("X"):
                vi, vj = T.axis.remap("SS", [i, j])
                X[vi, vj] = X[vi, vj] * T.float32(2)


@I.ir_module
class WithScalar:
    """A product, and a block without any axis."""

    @T.prim_func(s_tir=True)
    def main(
        A: T.Buffer((32, 32), "float32"),
        B: T.Buffer((32, 32), "float32"),
        S: T.Buffer((), "float32"),
        R: T.Buffer((), "float32"),
        C: T.Buffer((32, 32), "float32"),
    ):
        for i, j, k in T.grid(32, 32, 32):
            with T.sblock("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
        with T.sblock("scalar"):
            T.reads(S[()])
            T.writes(R[()])
            R[()] = S[()] * T.float32(2)


@I.ir_module
class GoingOn:
    """A product that is added to what its output holds."""

    @T.prim_func(s_tir=True)
    def main(
        A: T.Buffer((32, 32), "float32"), B: T.Buffer((32, 32), "float32"), C: T.Buffer((32, 32), "float32")
    ):
        for i, j, k in T.grid(32, 32, 32):
            with T.sblock("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


def two_poolings():
    """Stock's AddRFactor puts the loop of a sum before the others."""
    from tvm import topi

    x = te.placeholder((1, 12, 14, 16), name="X")
    for _ in range(2):
        x = topi.nn.pool2d(x, (3, 3), (1, 1), (1, 1), (0, 0, 0, 0), "max", layout="NHWC")
    source = x.op.input_tensors[0].op.input_tensors[0]
    return canonical_module(te.create_prim_func([source, x]))


def of_script(module):
    return canonical_module(module["main"])


def results(mod, target, arrays):
    tensors = [tvm.runtime.tensor(array) for array in arrays]
    tvm.compile(mod, make_target(target))["main"](*tensors)
    return [tensor.numpy() for tensor in tensors]


@pytest.mark.parametrize(
    "mod",
    [lambda: of_script(Doubled), lambda: of_script(WithScalar), two_poolings],
    ids=["in place", "no axes", "two poolings"],
)
def test_a_nest_that_cannot_be_parallel_stays_as_it_is_beside_a_plan(llvm, mod):
    mod = mod()
    candidates = open_search("random", mod, llvm, space=OURS).suggest(24, round_=0).candidates
    schedules = [apply_trace(json.loads(candidate.trace), mod) for candidate in candidates]
    ours = [schedule for schedule in schedules if is_ours(schedule)]
    assert ours
    arrays = inputs(mod)
    expected = results(mod, llvm, arrays)
    for schedule in ours[:2]:
        for got, wanted in zip(results(schedule.mod, llvm, arrays), expected, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


def test_a_sum_that_goes_on_from_its_output_is_never_begun_anew(llvm):
    """Of stock's three tilings two sum in a cache that holds nothing yet, and the third is refused."""
    mod = of_script(GoingOn)
    search = open_search("random", mod, llvm, space=OURS)
    candidates = search.suggest(3, round_=0).candidates
    assert candidates
    arrays = inputs(mod)
    expected = results(mod, llvm, arrays)
    for candidate in candidates:
        schedule = apply_trace(candidate.trace, mod)
        for got, wanted in zip(results(schedule.mod, llvm, arrays), expected, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("channels", "fuses"), [(3, True), (16, False)])
def test_an_image_of_few_channels_is_padded_line_by_line(channels, fuses):
    """As a loop over 130 x 3 elements, which LLVM makes vectors of."""
    target = make_target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2})
    mod = convolution(127, channels, 16, stride=1, padding=1, dilation=1, groups=1)
    context = tvm.s_tir.meta_schedule.TuneContext(
        mod=mod, target=target, space_generator=with_ours(target), search_strategy="replay-trace"
    )
    ours = [schedule for schedule in context.generate_design_space() if is_ours(schedule)]
    assert ours
    of_lines = [each for each in ours if f"range({130 * channels})" in each.mod.script()]
    assert bool(of_lines) == fuses


def test_a_nest_in_which_a_sum_begins_is_finished_already():
    """Its results are as many as vectors hold, and their loop is the cores'."""
    target = make_target({"kind": "llvm", "mcpu": "x86-64-v4", "num-cores": 2})
    mod = computed(lambda topi, x: topi.sum(x, axis=(0, 2)), (64, 64, 784))
    context = tvm.s_tir.meta_schedule.TuneContext(
        mod=mod, target=target, space_generator=with_ours(target), search_strategy="replay-trace"
    )
    ours = [schedule for schedule in context.generate_design_space() if is_ours(schedule)]
    assert ours
    assert all("T.parallel(64)" in schedule.mod.script() for schedule in ours)


def test_what_stock_has_tiled_beside_a_plan_goes_over_the_cores():
    """Of two contractions one may have stock's tiles, beside a plan of the other."""
    from tvm import topi

    target = make_target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2})
    x, w = te.placeholder((1, 18, 18, 32), name="X"), te.placeholder((3, 3, 4, 32), name="W")
    v = te.placeholder((1, 1, 32, 48), name="V")
    grouped = topi.nn.group_conv2d_nhwc(x, w, 1, 0, 1, 8)
    mod = canonical_module(te.create_prim_func([x, w, v, topi.nn.conv2d_nhwc(grouped, v, 1, 0, 1)]))
    context = tvm.s_tir.meta_schedule.TuneContext(
        mod=mod, target=target, space_generator=with_ours(target), search_strategy="replay-trace"
    )
    ours = [schedule for schedule in context.generate_design_space() if is_ours(schedule)]
    tiled_by_stock = [schedule for schedule in ours if _nests(schedule, n_loops=10)]
    assert tiled_by_stock
    for schedule in tiled_by_stock:
        assert all(nest.kind == tvm.tirx.ForKind.PARALLEL for nest in _nests(schedule, n_loops=10))


def _nests(schedule, *, n_loops):
    """Outermost loops of the root's blocks that stand in so many, or in fewer that were fused."""
    blocks = schedule.get_child_blocks(schedule.get_sblock("root"))
    nests = [schedule.get_loops(block) for block in blocks]
    return [schedule.get(loops[0]) for loops in nests if len(loops) >= n_loops]


def test_a_part_of_the_channels_is_no_line():
    """Of each of four groups ten channels: a loop over all pixels' would have holes."""
    target = {"kind": "llvm", "mcpu": "x86-64-v4", "num-cores": 2}
    mod = convolution(22, 40, 64, stride=1, padding=1, dilation=1, groups=4)
    found = [schedule.mod.script() for schedule in spaces(mod, target)]
    assert any("T.grid(1, 24, 25)" in text and "T.vectorized(10)" in text for text in found)
    assert not any(f"{25 * 10})" in text for text in found)


@pytest.mark.parametrize(
    ("size", "extents"),
    [(14, [6, 196]), (16, [6, 16, 1, 16]), (3, [6, 9])],
    ids=["a long line", "whole vectors", "short images"],
)
def test_short_loops_along_one_line_are_one(llvm, size, extents):
    """A scale for each image: lines of an image are one line, images are not."""
    mod = computed(
        lambda topi, x, s, w: topi.nn.conv2d_nchw(topi.multiply(x, s), w, 1, 0, 1),
        *((1, 6, size, size), (1, 6, 1, 1), (16, 6, 1, 1)),
    )
    schedule = tvm.s_tir.Schedule(mod, debug_mask="none")
    block = schedule.get_sblock("T_multiply")
    node, loops = schedule.get(block), list(schedule.get_loops(block))
    lanes = 16
    loops = _with_long_lines(schedule, loops, node, lanes=lanes)
    write_lines(schedule, loops, node, lanes=lanes)
    found = [int(schedule.get(loop).extent) for loop in schedule.get_loops(block)]
    assert [extent for extent in found if extent > 1] == [extent for extent in extents if extent > 1]
    arrays = inputs(mod)
    np.testing.assert_allclose(outputs(schedule.mod, llvm, arrays), outputs(mod, llvm, arrays), rtol=1e-5)
