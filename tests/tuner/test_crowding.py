"""Rows that lie a multiple of 4 KiB apart crowd a few sets of a cache, as lines counted one by one show."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tuner.contractions import matmul
from tuner.crowding import crowding
from tuner.tvm_light import load_tvm

tvm = load_tvm()
te = tvm.te

SHARES = [2.0**-halving for halving in range(1, 13)]


def panels(mod, *, columns=32, depth=64):
    """A panel of columns is read to so great a depth, and again for each row."""
    schedule = tvm.s_tir.Schedule(mod, debug_mask="none")
    i, j, k = schedule.get_loops(schedule.get_sblock("C"))
    j, panel = schedule.split(j, [None, columns])
    k, piece = schedule.split(k, [None, depth])
    schedule.reorder(j, k, i, piece, panel)
    return schedule.mod


def of_a_panel(width, **sizes):
    """What a panel seems to touch more, of 64 rows times a matrix of so many columns."""
    work = 64 * width * 256
    return crowding(panels(matmul(64, width, 256), **sizes), [32 * 64 / work])[0]


def test_a_panel_of_a_matrix_a_power_of_two_wide_crowds_two_sets():
    # 64 rows of 128 bytes, each 4 KiB behind the other: 64 lines in each of two sets.
    assert of_a_panel(1024) == pytest.approx(64 * 4096 - 64 * 128)
    assert of_a_panel(512) == pytest.approx(32 * 4096 - 64 * 128)


def test_one_of_another_width_crowds_none():
    assert of_a_panel(1024 + 32) < 3 * 4096
    assert of_a_panel(32) == 0


def test_what_a_schedule_copies_lies_closer():
    schedule = tvm.s_tir.Schedule(panels(matmul(64, 1024, 256)), debug_mask="none")
    block = schedule.get_sblock("C")
    copied = schedule.cache_read(block, 1, "global")
    schedule.transform_layout(
        schedule.get_sblock("C"), ("read", 1), lambda k, j: (tvm.tirx.floordiv(j, 32), k, j % 32)
    )
    assert copied is not None
    share = 32 * 64 / (64 * 1024 * 256)
    assert crowding(schedule.mod, [share])[0] == 0


def test_an_index_that_is_loaded_is_left_out():
    rows = te.placeholder((512,), name="rows", dtype="int32")
    table = te.placeholder((1024, 1024), name="table")
    found = te.compute((512, 1024), lambda i, j: table[rows[i], j], name="C")
    assert not crowding(tvm.IRModule({"main": te.create_prim_func([rows, table, found])}), SHARES).any()


def test_a_function_without_blocks_is_left_out():
    nothing = tvm.tirx.PrimFunc([], tvm.tirx.Evaluate(0))
    assert not crowding(tvm.IRModule({"main": nothing}), SHARES).any()


@given(
    strides=st.lists(st.sampled_from([1, 3, 16, 256, 700, 1024, 2048]), min_size=1, max_size=3),
    extents=st.lists(st.integers(1, 9), min_size=3, max_size=3),
)
@settings(max_examples=40, deadline=None)
def test_lines_and_sets_are_those_counted_one_by_one(strides, extents):
    extents = extents[: len(strides)]
    size = 1 + sum(stride * (extent - 1) for stride, extent in zip(strides, extents, strict=True))
    data = te.placeholder((size,), name="data")
    copy = te.compute(
        extents,
        lambda *at: data[sum(stride * each for stride, each in zip(strides, at, strict=True))],
        name="C",
    )
    mod = tvm.IRModule({"main": te.create_prim_func([data, copy])})
    (found,) = crowding(mod, [1.0])
    assert found == pytest.approx(excess(strides, extents) + excess(compact(extents), extents), abs=1e-3)


def compact(extents):
    return [int(np.prod(extents[place + 1 :])) for place in range(len(extents))]


def excess(strides, extents):
    every = itertools.product(*(range(extent) for extent in extents))
    lines = {4 * sum(s * each for s, each in zip(strides, at, strict=True)) // 64 for at in every}
    per_set = len(lines) / len({line % 64 for line in lines})
    return per_set * 4096 - len(lines) * 64 if per_set > 1 else 0.0
