"""Rows that are no whole tiles, read where they lie: the last tile has fewer, and a nest of its own."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tuner.contractions import assert_same_numbers, matmul, spaces
from tuner.space.registers import PEELED
from tuner.space.tiling import tile_groups
from tuner.target import make_target
from tuner.trace import apply_trace, canonical_text
from tuner.tvm_light import load_tvm

tvm = load_tvm()


@pytest.mark.parametrize("epilogue", [False, True])
@pytest.mark.parametrize("rows", [34, 100])
def test_rows_that_are_no_whole_tiles_are_peeled_and_give_the_numbers_of_the_untuned_program(
    llvm, rows, epilogue
):
    mod = matmul(rows, 64, 800, epilogue=epilogue)
    peeled = [found for found in spaces(mod, llvm) if PEELED in canonical_text(found.trace)]
    assert peeled
    assert not any("PadEinsum" in canonical_text(found.trace) for found in peeled)
    assert_same_numbers(mod, llvm, seed=rows, found=peeled, at_most=len(peeled))


@given(rows=st.integers(2, 5000), tile_rows=st.integers(1, 28))
def test_no_group_of_tiles_is_empty(rows, tile_rows):
    """Of an empty one TVM's LoopPartition makes a loop that begins before its first step."""
    n_groups, size = tile_groups(rows, tile_rows)
    assert (n_groups - 1) * size * tile_rows < rows <= n_groups * size * tile_rows
    assert size > 1


@pytest.mark.parametrize("rows", [[1, 9], [9, 1], [3, 3]])
def test_a_peeled_nest_has_no_condition_and_ends_with_a_lesser_tile(llvm, rows):
    """Whichever loop goes over the nine pairs of tiles, of which the last has four rows alone."""
    mod = matmul(100, 256, 256)
    found = [json.loads(canonical_text(each.trace)) for each in spaces(mod, llvm)]
    # Columns are copied tile by tile: no core has rows of its own.
    instructions, [columns, (site, _)] = next(
        trace for trace in found if PEELED in str(trace) and [len(each) for _, each in trace[1]] == [2, 2]
    )
    schedule = apply_trace([instructions, [columns, [site, rows]]], mod)
    lower, *_ = tvm.tirx.get_tir_pipeline("s_tir")
    bound = tvm.tirx.transform.BindTarget(make_target(llvm).with_host(make_target(llvm)))
    nest = lower(bound(schedule.mod)).script().split("for ", 1)[1]
    assert nest.count("range(256)") >= 2  # for six rows at a time, and for four
    assert not re.search(r"\bif\b|if_then_else|T\.Select", nest)
