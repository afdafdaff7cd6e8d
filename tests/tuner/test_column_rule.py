"""Columns in one pass: what reduces along an axis whose neighbours lie apart, and what is made of it."""

import json
import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.tuner.contractions import assert_same_numbers, computed, outputs, spaces_of_function
from tuner.module import canonical_module
from tuner.space.columns import columns_of
from tuner.space.vectors import VectorUnit
from tuner.trace import canonical_text
from tuner.tvm_light import load_tvm

tvm = load_tvm()
from tvm import te, topi  # noqa: E402 - after TVM's light loading

UNIT = VectorUnit(lanes=8, registers=16)


def unit_columns(topi, x, axis=1):
    """Each column by the root of its sum of squares."""
    return topi.divide(x, topi.sqrt(topi.sum(topi.multiply(x, x), axis, keepdims=True)))


def normalised(topi, x, axis=1):
    """A root that TVM divides by in one call."""
    axes = [axis] if isinstance(axis, int) else axis
    n = 1.0
    for each in axes:
        n *= int(x.shape[each])
    apart = topi.subtract(x, topi.divide(topi.sum(x, axis, keepdims=True), n))
    mean = topi.divide(topi.sum(topi.multiply(apart, apart), axis, keepdims=True), n)
    return topi.multiply(apart, topi.rsqrt(topi.add(mean, 1e-5)))


def softmax(topi, x, axis=1):
    return topi.nn.softmax(x, axis)


def between(topi, x, axis=1):
    least = topi.min(x, axis, keepdims=True)
    return topi.divide(topi.subtract(x, least), topi.subtract(topi.max(x, axis, keepdims=True), least))


def merged(space):
    instructions, _ = json.loads(canonical_text(space.trace))
    return [each for each in instructions if each[0] == "Merge"]


def in_one_pass(mod, llvm):
    return [space for space in spaces_of_function(mod, llvm) if merged(space)]


def reductions_of(mod):
    schedule = tvm.s_tir.Schedule(mod, debug_mask="none")
    for block in schedule.get_child_blocks(schedule.get_sblock("root")):
        if schedule.get(block).init is None and schedule.get_consumers(block):
            schedule.compute_inline(block)
    found = schedule.get_child_blocks(schedule.get_sblock("root"))
    return schedule, [each for each in found if schedule.get(each).init is not None]


@pytest.mark.parametrize("function", [unit_columns, normalised, softmax, between])
@pytest.mark.parametrize(
    "shape",
    [
        (1, 24, 8, 16),
        (2, 5, 7, 9),  # lines that end within a vector, but for the images
        (40, 33),
        (3, 12, 200),
        (1, 16, 5, 5),
    ],
)
def test_blocks_of_the_same_columns_are_one_loop(llvm, function, shape):
    mod = computed(lambda topi, x: function(topi, x, 0 if len(shape) == 2 else 1), shape)
    found = in_one_pass(mod, llvm)
    assert found
    assert_same_numbers(mod, llvm, seed=1, found=found)


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(
    function=st.sampled_from([unit_columns, normalised, softmax, between]),
    around=st.lists(st.integers(1, 3), max_size=2), depth=st.integers(1, 20),
    columns=st.lists(st.integers(1, 30), min_size=1, max_size=2), seed=st.integers(0, 99),
)  # fmt: skip
def test_of_any_extents_whatever_forms_there_are_give_these_numbers(
    llvm, function, around, depth, columns, seed
):
    mod = computed(lambda topi, x: function(topi, x, len(around)), (*around, depth, *columns))
    found = spaces_of_function(mod, llvm)
    if found:
        assert_same_numbers(mod, llvm, seed=seed, found=found, at_most=2)


def of_dtype(dtype):
    x = te.placeholder((1, 6, 8, 20), name="X", dtype=dtype)
    return canonical_module(te.create_prim_func([x, unit_columns(topi, x)]))


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-12), ("float16", 1e-2)])
def test_columns_of_other_numbers(llvm, dtype, tolerance):
    """Against the untuned program."""
    mod = of_dtype(dtype)
    data = np.random.default_rng(4).standard_normal((1, 6, 8, 20)).astype(dtype)
    (expected,) = [outputs(mod, llvm, [data, np.zeros_like(data)])]
    found = in_one_pass(mod, llvm)
    assert found
    for space in found:
        got = outputs(space.mod, llvm, [data, np.zeros_like(data)])
        np.testing.assert_allclose(got, expected, rtol=tolerance)


def test_columns_of_bfloat16_can_be_built(llvm):
    found = in_one_pass(of_dtype("bfloat16"), llvm)
    assert found
    for space in found:
        tvm.compile(space.mod, tvm.target.Target(llvm))


def test_a_sum_of_everything_may_read_a_root_of_columns(llvm):
    """It has no axis of results."""
    x = te.placeholder((24, 40), name="X")
    roots = topi.rsqrt(topi.sum(topi.multiply(x, x), 0))
    i, j = te.reduce_axis((0, 24), name="i"), te.reduce_axis((0, 40), name="j")
    total = te.compute((), lambda: te.sum(x[i, j] * roots[j], axis=[i, j]), name="total")
    mod = canonical_module(te.create_prim_func([x, total]))
    assert_same_numbers(mod, llvm, seed=5, found=spaces_of_function(mod, llvm))


def test_all_of_an_image_is_reduced_at_once(llvm):
    """Channels last: sums over images and pixels of each channel."""
    mod = computed(lambda topi, x: normalised(topi, x, [0, 1, 2]), (2, 3, 5, 64))
    found = in_one_pass(mod, llvm)
    assert found
    assert_same_numbers(mod, llvm, seed=2, found=found)


def test_few_columns_of_much_are_left_to_the_reductions(llvm):
    """One vector of columns is one core's: each reduction is cut into pieces."""
    mod = computed(lambda topi, x: normalised(topi, x, [0, 1]), (64, 64, 8))
    found = spaces_of_function(mod, llvm)
    assert found
    assert not any(merged(space) for space in found)
    assert_same_numbers(mod, llvm, seed=3, found=found)


def elements_with_roots(space):
    blocks = [space.get(each) for each in space.get_child_blocks(space.get_sblock("root"))]
    roots = [block for block in blocks if "rsqrt" in str(block.body)]
    return [math.prod(int(axis.dom.extent) for axis in block.iter_vars) for block in roots]


def test_what_divides_by_a_root_is_computed_once_for_each_column(llvm):
    """Not for each of its elements: TVM writes no vectors of such calls."""
    found = in_one_pass(computed(normalised, (1, 24, 16, 16)), llvm)
    assert [elements_with_roots(space) for space in found] == [[256], [256]]  # by groups, and in streams


def test_of_rows_it_is_inlined_as_before(llvm):
    found = in_one_pass(computed(normalised, (16, 256)), llvm)
    assert found
    assert all(elements_with_roots(space) == [16 * 256] for space in found)


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (lambda topi, x: topi.sum(x, 1), (1, 24, 8, 16)),  # one pass is the reductions' own
        (lambda topi, x: topi.nn.relu(topi.sum(x, 1)), (1, 24, 8, 16)),
        (lambda topi, x: unit_columns(topi, x, 1), (24, 80)),  # rows
        (lambda topi, x: unit_columns(topi, x, 1), (4, 24, 7)),  # less than a vector
        (lambda topi, x: topi.subtract(topi.transpose(x), topi.sum(x, 0)), (24, 24)),  # others' columns
    ],
)
def test_other_functions_have_no_columns(function, shape):
    schedule, blocks = reductions_of(computed(function, shape))
    assert blocks
    for block in blocks:
        assert columns_of(schedule, block, UNIT, cores=2) == ()


def test_the_forms_are_there_once_whichever_block_is_asked_first():
    schedule, blocks = reductions_of(computed(between, (1, 24, 8, 16)))
    assert len(blocks) > 1
    assert sum(bool(columns_of(schedule, block, UNIT, cores=2)) for block in blocks) == 1
