"""Rows in one pass (softmax, normalisations, sums) in our space: right numbers, traces that are allowed."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks.space import named_space
from checks.trace import check_trace
from tests.tuner.contractions import assert_same_numbers, inputs, matmul, outputs, spaces_of_function
from tests.tuner.driving import open_search
from tuner.module import canonical_module, structural_hash
from tuner.space.registers import PEELED
from tuner.space.row_rule import passed_through
from tuner.target import make_target
from tuner.trace import apply_trace, canonical_text
from tuner.tvm_light import load_tvm

tvm = load_tvm()
te = tvm.te

OURS, _ = named_space("tilefarm")
_ZEN5 = {"kind": "llvm", "mcpu": "znver5", "num-cores": 2}


def module(build, *shapes):
    from tvm import topi

    arguments = [te.placeholder(shape, name=f"X{number}") for number, shape in enumerate(shapes)]
    return canonical_module(te.create_prim_func([*arguments, build(topi, *arguments)]))


def scaled_root_mean_square(topi, x, scale):
    squares = topi.sum(topi.multiply(x, x), axis=-1, keepdims=True)
    return topi.multiply(topi.multiply(x, topi.rsqrt(topi.add(squares, 1e-5))), scale)


SOFTMAX = (lambda topi, x: topi.nn.softmax(x, axis=-1), (7, 128))
#: A polynomial in place of exp, as relax's FastMathTransform writes it: nothing is called.
FAST = (lambda topi, x: topi.nn.fast_softmax(x, axis=1), (7, 128))
NORM = (lambda topi, x, g, b: topi.nn.layer_norm(x, g, b, [2]), (2, 3, 96), (96,), (96,))
KEEPING = (scaled_root_mean_square, (5, 64), (64,))
SUM = (lambda topi, x: topi.sum(x, axis=-1), (3, 5, 256))
#: Rows that end within a vector.
ODD_NORM = (lambda topi, x, g, b: topi.nn.layer_norm(x, g, b, [1]), (6, 77), (77,), (77,))
ODD_SOFTMAX = (lambda topi, x: topi.nn.softmax(x, axis=-1), (3, 197))
ODD_MAXIMUM = (lambda topi, x: topi.max(x, axis=-1), (5, 333))
#: Each channel's image is a row.
IMAGES = (lambda topi, x, g, b: topi.nn.instance_norm(x, g, b, 1, [2, 3]), (2, 3, 8, 12), (3,), (3,))
ODD_IMAGES = (lambda topi, x: topi.nn.global_pool(x, "avg", "NCHW"), (2, 5, 7, 9))
PRODUCT = (lambda topi, x, y: topi.sum(topi.multiply(x, y), axis=-1), (9, 64), (64,))


def forms(mod, target):
    """Of the first block that reduces."""
    schedule = tvm.s_tir.Schedule(mod, debug_mask="none")
    blocks = schedule.get_child_blocks(schedule.get_sblock("root"))
    block = next(block for block in blocks if schedule.get(block).init is not None)
    return passed_through(schedule, block, make_target(target))


@pytest.mark.parametrize(
    ("case", "n_forms"),
    [
        *((SOFTMAX, 2), (FAST, 1), (NORM, 1), (KEEPING, 1), (SUM, 1), (PRODUCT, 1)),
        *((ODD_NORM, 1), (ODD_SOFTMAX, 2), (ODD_MAXIMUM, 1), (IMAGES, 1), (ODD_IMAGES, 1)),
    ],
    ids=[
        *("softmax", "by a polynomial", "layer norm", "kept axes", "sum", "matrix times vector"),
        *("odd norm", "odd softmax", "odd maximum", "instance norm", "odd images"),
    ],
)
def test_each_form_gives_the_numbers_of_the_untuned_program(llvm, case, n_forms):
    mod = module(*case)
    found = forms(mod, llvm)
    assert len(found) == n_forms
    arrays = inputs(mod)
    expected = outputs(mod, llvm, arrays)
    for schedule in found:
        trace = json.loads(canonical_text(schedule.trace))
        check_trace(trace)
        again = apply_trace(trace, mod)
        np.testing.assert_allclose(outputs(again.mod, llvm, arrays), expected, rtol=1e-4, atol=1e-5)


def difference_to_the_mean(topi, x):
    """The mean of a row is read by a block of the row, and by its square's sum."""
    n = int(x.shape[-1])
    mean = topi.divide(topi.sum(x, axis=-1, keepdims=True), float(n))
    return topi.sum(topi.power(topi.subtract(x, mean), 2.0), axis=-1)


KINDS = {
    "sum": lambda topi, x: topi.sum(x, axis=-1),
    "maximum": lambda topi, x: topi.max(x, axis=-1, keepdims=True),
    "softmax": lambda topi, x: topi.nn.softmax(x, axis=-1),
    "variance": difference_to_the_mean,
    "root mean square": lambda topi, x: scaled_root_mean_square(topi, x, x),
    "plane": lambda topi, x: topi.sum(x, axis=(-2, -1)),
}


@given(
    kind=st.sampled_from(sorted(KINDS)),
    rows=st.lists(st.integers(1, 5), min_size=1, max_size=2),
    length=st.integers(16, 300),
)
@settings(max_examples=30, deadline=None)
def test_rows_of_any_length_give_the_numbers_of_the_untuned_program(llvm, kind, rows, length):
    plane = (3,) if kind == "plane" else ()
    mod = module(KINDS[kind], (*rows, *plane, length))
    arrays = inputs(mod)
    expected = outputs(mod, llvm, arrays)
    for schedule in forms(mod, llvm):
        again = apply_trace(json.loads(canonical_text(schedule.trace)), mod)
        np.testing.assert_allclose(outputs(again.mod, llvm, arrays), expected, rtol=1e-4, atol=1e-4)


def test_a_block_that_reads_other_rows_is_left_alone(llvm):
    """`merge` would not ask: each row is divided by the sum of another."""

    def build(topi, x):
        total = topi.sum(x, axis=-1)
        return te.compute(x.shape, lambda i, j: x[i, j] / total[7 - i], name="out")

    assert forms(module(build, (8, 128)), llvm) == []


def test_what_a_later_row_overwrites_is_left_alone(llvm):
    """Between sum and quotient another nest writes what was summed."""
    mod = canonical_module(tvm.script.from_source(OVERWRITING)["main"])
    assert forms(mod, llvm) == []


OVERWRITING = """
# from tvm.script import ir as I
# from tvm.script import tirx as T

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(x: T.Buffer((8, 128)), total: T.Buffer((8,)), out: T.Buffer((8, 128))):
        for i, j in T.grid(8, 128):
            with T.sblock("total"):
                vi, vj = T.axis.remap("SR", [i, j])
                T.reads(x[vi, vj])
                T.writes(total[vi])
                with T.init():
                    total[vi] = T.float32(0)
                total[vi] = total[vi] + x[vi, vj]
        for j, i in T.grid(128, 8):
            with T.sblock("next"):
                vj, vi = T.axis.remap("SS", [j, i])
                T.reads(x[vi, vj])
                T.writes(x[vi, vj])
                x[vi, vj] = x[vi, vj] * T.float32(2)
        for i, j in T.grid(8, 128):
            with T.sblock("out"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(total[vi], x[vi, vj])
                T.writes(out[vi, vj])
                out[vi, vj] = total[vi] * x[vi, vj]
"""


@pytest.mark.parametrize(
    "case",
    [
        (lambda topi, x: topi.nn.softmax(x, axis=0), (64, 64)),
        (lambda topi, x: topi.sum(x, axis=-1), (16, 15)),
        (lambda topi, x: topi.sum(x, axis=(0, 1)), (16, 64)),
        (lambda topi, x: topi.sum(x, axis=(1, 3)), (4, 8, 8, 32)),
    ],
    ids=["along columns", "less than two vectors", "no rows", "no line"],
)
def test_what_has_no_contiguous_rows_is_left_alone(llvm, case):
    assert forms(module(*case), llvm) == []


def test_a_contraction_is_left_to_its_own_rule(llvm):
    assert forms(matmul(8, 64, 64, transposed=True), llvm) == []


def test_each_design_space_of_a_softmax_is_there_once(llvm):
    """Its two reductions share their rows: both would bring the same forms."""
    spaces = open_search("random", module(*SOFTMAX), llvm, space=OURS)._setup.design_spaces
    traces = [canonical_text(schedule.trace) for schedule in spaces]
    assert sum("SSRSSRSS" in trace for trace in traces) == 2
    assert (
        len(
            {
                structural_hash(schedule.mod)
                for schedule in spaces
                if "SSRSSRSS" in canonical_text(schedule.trace)
            }
        )
        == 2
    )


def test_the_space_of_a_softmax_has_whole_rows_in_it(llvm):
    search = open_search("random", module(*SOFTMAX), llvm, space=OURS)
    candidates = search.suggest(12, round_=0).candidates
    assert sum(candidate.trace.count("SSRSSRSS") >= 4 for candidate in candidates) >= 2


def _grouped(topi, x, scale, shift):
    return topi.nn.group_norm(x, scale, shift, 3, 1, [2, 3], 1e-5)


@pytest.mark.parametrize(("channels", "size"), [(15, 9), (9, 13)])
def test_of_groups_that_end_within_a_vector_elements_lie_side_by_side(channels, size):
    """TVM knows no remainder of a reshape for nothing, once a row's end is a condition."""
    mod = module(_grouped, (1, channels, size, size), (channels,), (channels,))
    written = [each for each in spaces_of_function(mod, _ZEN5) if PEELED in canonical_text(each.trace)]
    assert written
    target = make_target(_ZEN5)
    lower, *_ = tvm.tirx.get_tir_pipeline("s_tir")
    for found in written:
        text = lower(tvm.tirx.transform.BindTarget(target.with_host(target))(found.mod)).script()
        assert " // " not in text
        assert " % " not in text
    assert_same_numbers(mod, _ZEN5, seed=channels, found=written, at_most=len(written))
