"""What passes as rounding, and what a failed comparison says."""

import ml_dtypes
import numpy as np
import pytest

from workers.compare import difference, tolerance


def compare(got, expected, *, dtype="float32", reduction_length=1):
    return difference("C", np.array(got), np.array(expected), dtype=dtype, reduction_length=reduction_length)


def test_integers_and_booleans_have_to_be_equal():
    for dtype in ("int8", "uint64", "bool"):
        assert tolerance(dtype, 10**6) == 0.0
    assert compare(np.array([1, 2], "int8"), np.array([1, 2], "int8"), dtype="int8") is None
    text = compare(np.array([[1, 2], [3, 9]], "int8"), np.array([[1, 2], [3, 4]], "int8"), dtype="int8")
    assert text.startswith("output 'C' is 9 instead of 4 at [1, 1]; 1 of 4 elements")
    assert "absolute difference 5, relative 1.25" in text


def test_unsigned_differences_do_not_wrap():
    text = compare(np.array([0], "uint8"), np.array([255], "uint8"), dtype="uint8")
    assert "absolute difference 255" in text


def test_longer_sums_may_differ_more():
    assert tolerance("float32", 1) == tolerance("float32", 512) == 1e-4
    assert tolerance("float32", 10**8) == pytest.approx(4 * 2**-23 * 1e4)
    assert tolerance("float64", 10) < tolerance("float32", 10) < tolerance("float16", 10)
    assert tolerance("float16", 4) < tolerance("bfloat16", 4) < tolerance("float8_e5m2", 4)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("length", [1, 64, 4096, 10**8])
def test_neither_nothing_nor_half_of_a_sum_passes_however_long_it_is(dtype, length):
    expected = np.linspace(-4, 4, 9).astype(getattr(ml_dtypes, dtype, dtype))
    for share in (0, 0.5, -1):
        got = (expected.astype("float32") * share).astype(expected.dtype)
        assert difference("C", got, expected, dtype=dtype, reduction_length=length) is not None


@pytest.mark.parametrize(("dtype", "length"), [("float16", 2048), ("bfloat16", 1024)])
def test_a_sum_that_is_rounded_at_each_step_passes(dtype, length):
    held = np.dtype(getattr(ml_dtypes, dtype, dtype))
    generator = np.random.default_rng(0)
    factors = generator.random((2, length, 64), "float32") * 2 - 1
    products = np.prod(factors.astype(held).astype("float32"), axis=0)
    total = np.zeros(64, held)
    for product in products:
        total = (total.astype("float32") + product).astype(held)
    expected = products.sum(axis=0).astype(held)
    assert not np.array_equal(total, expected)
    assert difference("C", total, expected, dtype=dtype, reduction_length=length) is None


def test_rounding_passes_and_a_real_difference_does_not():
    expected = np.linspace(-3, 3, 1000, dtype="float32")
    assert compare(expected * np.float32(1 + 5e-5), expected) is None
    text = compare(expected + np.float32(0.01), expected)
    assert "1000 of 1000 elements differ by more than 0.0001" in text


def test_noise_near_zero_is_judged_by_the_largest_element():
    assert compare(np.array([1e-6, 1.0], "float32"), np.array([0.0, 1.0], "float32")) is None
    assert compare(np.array([1e-3, 1.0], "float32"), np.array([0.0, 1.0], "float32")) is not None


def test_not_a_number_passes_only_where_the_reference_has_it():
    nan = float("nan")
    assert compare(np.array([nan, 1.0], "float32"), np.array([nan, 1.0], "float32")) is None
    text = compare(np.array([1.0, nan, nan], "float32"), np.array([1.0, 2.0, 3.0], "float32"))
    assert text.startswith("output 'C' is nan instead of 2.0 at [1]; 2 of 3")
    assert text.endswith("2 are NaN")
    assert compare(np.array([1.0], "float32"), np.array([nan], "float32")) is not None


def test_infinities_pass_only_with_their_sign():
    inf = float("inf")
    assert compare(np.array([inf], "float32"), np.array([inf], "float32")) is None
    for got in (-inf, 1e30):
        assert compare(np.array([got], "float32"), np.array([inf], "float32")) is not None
    assert compare(np.array([inf, 1.0], "float32"), np.array([2.0, 1.0], "float32")) is not None


def test_narrow_floats_are_compared_wide():
    one = np.ones(4, ml_dtypes.bfloat16)
    assert difference("C", one, one, dtype="bfloat16", reduction_length=1) is None
    assert difference("C", one * 2, one, dtype="bfloat16", reduction_length=1) is not None


def test_an_empty_output_passes():
    assert compare(np.zeros((0, 3), "float32"), np.zeros((0, 3), "float32")) is None
