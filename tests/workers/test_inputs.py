"""Inputs follow from workload, seed and parameter, on every host alike."""

import dataclasses
import hashlib

import numpy as np
import pytest

from workers.inputs import InputRule, Parameter, make_inputs, numpy_dtype

RULE = InputRule(module_sha256="ab" * 32, input_seed=0, integer_low=0, integer_high=8)
DTYPES = [
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool",
    "float16", "float32", "float64", "bfloat16", "float8_e4m3fn", "float8_e5m2",
]  # fmt: skip


def draw(dtype, rule=RULE, shape=(64, 16)):
    return make_inputs([Parameter(name="A", shape=shape, dtype=dtype)], rule)[0]


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_is_filled_and_repeats(dtype):
    array = draw(dtype)
    assert array.dtype == numpy_dtype(dtype)
    assert array.shape == (64, 16)
    assert len(np.unique(array.astype(np.float64))) > 1
    assert array.tobytes() == draw(dtype).tobytes()


def test_the_generator_is_the_same_on_every_host():
    digest = hashlib.sha256(draw("float32").tobytes()).hexdigest()
    assert digest == "75a2682de457ce227fbe63a4828932b431535df1ae64ba851efc6ef66cc8873d"


def test_seed_workload_and_parameter_all_matter():
    base = draw("float32").tobytes()
    for change in ({"input_seed": 1}, {"module_sha256": "cd" * 32}):
        assert draw("float32", dataclasses.replace(RULE, **change)).tobytes() != base
    first, second = make_inputs([Parameter(name="A", shape=(64,), dtype="float32")] * 2, RULE)
    assert first.tobytes() != second.tobytes()


def test_integers_stay_in_the_declared_range():
    rule = dataclasses.replace(RULE, integer_low=-3, integer_high=1000)
    assert (draw("int32", rule).min(), draw("int32", rule).max() > 900) == (-3, True)
    assert draw("uint8", rule).min() >= 0
    assert draw("int8", rule).max() <= 127
    assert set(np.unique(draw("int64"))) == set(range(8))


def test_a_parameter_may_have_a_range_of_its_own():
    rule = dataclasses.replace(RULE, ranges=((1, 100, 200), (2, 1, 2)))
    parameters = [Parameter(name=name, shape=(64,), dtype="int32") for name in ("a", "b", "c")]
    first, second, third = make_inputs(parameters, rule)
    assert (first.max() < 8, second.min() >= 100, second.max() < 200) == (True, True, True)
    assert set(np.unique(third)) == {1}


def test_an_empty_range_gives_its_lower_end():
    rule = dataclasses.replace(RULE, integer_low=5, integer_high=5)
    assert set(np.unique(draw("int32", rule))) == {5}


def test_floats_are_benign_and_can_be_positive():
    signed = draw("float32")
    assert -1 <= signed.min() < -0.9
    assert 0.9 < signed.max() < 1
    positive = draw("float32", dataclasses.replace(RULE, positive_floats=True))
    assert positive.min() >= 0.5


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("length", [2, 48, 1024, 8192])
def test_sums_of_float8_are_the_same_in_any_order(dtype, length):
    """Drawn from all that it holds, they are off by half of the largest at a length of 512."""
    parameters = [Parameter(name=name, shape=(length, 16), dtype=dtype) for name in "AB"]
    first, second = make_inputs(parameters, RULE, reduction_length=length)
    products = first.astype("float32")[:, :, None] * second.astype("float32")[:, None]
    expected = products.sum(axis=0)
    total = np.zeros(expected.shape, first.dtype)
    for product in products:
        total = (total.astype("float32") + product).astype(first.dtype)
    off = np.abs(total.astype("float32") - expected)
    assert off.max() <= 0.1 * np.abs(expected).max()
    assert (off > 0).mean() < 0.01
    assert (expected != 0).mean() > 0.5


def test_scalars_have_a_place_too():
    assert draw("float32", shape=()).shape == ()


def test_an_unknown_dtype_names_itself():
    with pytest.raises(ValueError, match="handle"):
        numpy_dtype("handle")
