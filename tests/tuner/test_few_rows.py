"""Contractions of few rows, as dot products and as streams: which forms there are, and their numbers."""

import json

import numpy as np
import pytest

from checks.trace import check_trace
from tests.tuner.contractions import AVX2, assert_same_numbers, computed, inputs, matmul, outputs, spaces
from tuner.space.contraction import Contraction
from tuner.space.dots import dots_of
from tuner.space.registers import PEELED
from tuner.space.streams import streams_of, write_stream
from tuner.trace import canonical_text
from tuner.tvm_light import load_tvm
from workers.program import replay

tvm = load_tvm()


def _contraction(mod):
    schedule = tvm.s_tir.Schedule(mod, debug_mask="none")
    contraction = Contraction.of(schedule.get(schedule.get_sblock("C")))
    assert contraction is not None
    return schedule, contraction


@pytest.mark.parametrize(("rows", "columns", "n_forms"), [(1, 50, 2), (6, 33, 2), (17, 33, 0)])
def test_few_rows_that_lie_along_the_depth_are_dot_products_too(llvm, rows, columns, n_forms):
    mod = matmul(rows, columns, 64, transposed=True, epilogue=rows == 6)
    found = [schedule for schedule in spaces(mod, llvm) if "RFactor" in canonical_text(schedule.trace)]
    assert len(found) == n_forms
    arrays = inputs(mod)
    for schedule in found[:1]:
        check_trace(json.loads(canonical_text(schedule.trace)))
        got = outputs(schedule.mod, llvm, arrays)
        np.testing.assert_allclose(got, outputs(mod, llvm, arrays), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("split", [[2, 1], [1, 2]])
def test_tiles_of_rows_of_dot_products_stand_outside_of_the_columns_or_inside(llvm, split):
    mod = matmul(8, 33, 64, transposed=True, epilogue=True)  # two tiles of four rows
    found = [schedule for schedule in spaces(mod, llvm) if "RFactor" in canonical_text(schedule.trace)]
    instructions, decisions = json.loads(canonical_text(found[0].trace))
    (columns, factors), (rows, _) = decisions
    text = json.dumps([instructions, [[columns, factors], [rows, split]]])
    arrays = inputs(mod)
    got = outputs(replay(mod, text), llvm, arrays)
    np.testing.assert_allclose(got, outputs(mod, llvm, arrays), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("rows", "columns", "n_forms"), [(1, 96, 2), (4, 40, 2), (5, 64, 0), (2, 34, 2)])
def test_few_rows_against_an_operand_along_the_columns_are_streams_too(llvm, rows, columns, n_forms):
    mod = matmul(rows, columns, 48, epilogue=rows == 4)
    schedule, contraction = _contraction(mod)
    streams = streams_of(contraction, AVX2, cores=2)
    assert len(streams) == n_forms
    for stream in streams:
        candidate = schedule.copy()
        write_stream(candidate, candidate.get_sblock("C"), contraction, stream)
        assert_same_numbers(mod, llvm, seed=stream.steps, found=[candidate])


@pytest.mark.parametrize(
    ("rows", "together"), [(1, 1), (3, 3), (7, 7), (9, 3), (10, 2), (11, None), (13, None)]
)
def test_columns_that_fill_no_vectors_are_lines_of_a_few_more_rows(llvm, rows, together):
    """With bias and activation behind them; eleven rows would read the other operand eleven times."""
    mod = matmul(rows, 101, 48, epilogue=rows > 1)
    schedule, contraction = _contraction(mod)
    streams = streams_of(contraction, AVX2, cores=2)
    assert {(stream.rows, stream.lanes) for stream in streams} == ({(together, None)} if together else set())
    for stream in streams:
        candidate = schedule.copy()
        write_stream(candidate, candidate.get_sblock("C"), contraction, stream)
        assert_same_numbers(mod, llvm, seed=rows, found=[candidate])


@pytest.mark.parametrize(
    ("rows", "columns", "depth", "cores", "lines"),
    [
        (1, 509, 37, 2, {248, 120}),
        (3, 143, 40, 2, {64}),
        (1, 8191, 16, 1, {4088, 2040}),
        (1, 1009, 16, 1, {None}),
        (2, 1018, 16, 2, {None}),
        (8, 509, 16, 2, {None}),
        (1, 101, 16, 2, {None}),
    ],
    ids=["prime", "odd", "long", "one core", "divides", "groups of rows", "short"],
)
def test_columns_with_no_good_divisor_are_even_lines_and_a_lesser_one(
    llvm, rows, columns, depth, cores, lines
):
    """The depth as well: 37 steps are four times eight and five, or twice sixteen and five."""
    mod = matmul(rows, columns, depth, epilogue=rows == 3)
    schedule, contraction = _contraction(mod)
    streams = streams_of(contraction, AVX2, cores=cores)
    assert {stream.line for stream in streams} == lines
    for stream in streams if None not in lines else ():
        candidate = schedule.copy()
        write_stream(candidate, candidate.get_sblock("C"), contraction, stream)
        assert canonical_text(candidate.trace).count(PEELED) == 2 + (depth % stream.steps > 0)
        assert_same_numbers(mod, llvm, seed=rows, found=[candidate])


@pytest.mark.parametrize(
    ("rows", "columns", "depth", "epilogue"),
    [(1, 101, 64, True), (2, 67, 45, False), (4, 30, 33, True), (3, 53, 131, True)],
    ids=["columns", "both", "depth", "three rows"],
)
def test_dot_products_end_with_fewer_columns_and_lesser_vectors(llvm, rows, columns, depth, epilogue):
    mod = matmul(rows, columns, depth, transposed=True, epilogue=epilogue)
    found = [each for each in spaces(mod, llvm) if "RFactor" in canonical_text(each.trace)]
    assert any(PEELED in canonical_text(each.trace) for each in found)
    assert_same_numbers(mod, llvm, seed=columns, found=found, at_most=len(found))


@pytest.mark.parametrize(("heads", "keys", "depth"), [(4, 61, 64), (3, 53, 45)])
def test_so_do_those_of_several_heads(llvm, heads, keys, depth):
    """Scores of one query each: the loop over the cores goes through heads alone."""
    mod = computed(
        lambda topi, queries, keys: topi.nn.batch_matmul(queries, keys),
        (heads, 1, depth),
        (heads, keys, depth),
    )
    found = [each for each in spaces(mod, llvm) if "RFactor" in canonical_text(each.trace)]
    assert any(PEELED in canonical_text(each.trace) for each in found)
    assert_same_numbers(mod, llvm, seed=keys, found=found, at_most=len(found))


@pytest.mark.parametrize("transposed", [False, True])
def test_an_operand_that_is_read_once_is_not_copied(llvm, transposed):
    """Whatever of its sizes fills no vectors: what is ours are streams or dot products."""
    mod = matmul(1, 509, 101, transposed=transposed)
    _, contraction = _contraction(mod)
    found = spaces(mod, llvm)
    assert found
    assert all("ReIndex" not in canonical_text(each.trace) for each in found)
    assert contraction.extents == (1, 509, 101)


@pytest.mark.parametrize("transposed", [False, True])
def test_a_matrix_times_a_vector_is_dot_products_of_its_rows(llvm, transposed):
    """The vector's unit axis, behind or before its depth, hides nothing."""
    mod = matmul(96, 1, 64, transposed=transposed, epilogue=True)
    schedule = tvm.s_tir.Schedule(mod, debug_mask="none")
    contraction = Contraction.of(schedule.get(schedule.get_sblock("C")))
    assert contraction is not None
    assert contraction.extents == (1, 96, 64)
    assert dots_of(contraction, AVX2)
    assert_same_numbers(mod, llvm, seed=transposed, at_most=4)
