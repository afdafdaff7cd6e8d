"""Loops that LLVM makes vectors of, though the schedule tells nothing of it."""

from tests.tuner.contractions import matmul
from tuner.cost_model.for_target import cost_model
from tuner.features import N_WITH_CROWDING, extract
from tuner.module import save_module
from tuner.plain_vectors import plain_vectors
from tuner.search.options import SearchOptions
from tuner.search.picks import measure_candidate
from tuner.search.setup import open_setup
from tuner.target import make_target
from tuner.tvm_light import load_tvm

tvm = load_tvm()
te = tvm.te


def product(write, *, rows=64, depth=4):
    schedule = tvm.s_tir.Schedule(matmul(rows, 96, depth), debug_mask="none")
    block = schedule.get_sblock("C")
    write(schedule, block, *schedule.get_loops(block))
    return schedule


def by_lines(schedule, block, i, j, k):
    schedule.reorder(i, j, k)
    schedule.parallel(i)
    schedule.unroll(k)
    schedule.decompose_reduction(block, k)


def _pieces_of_a_sum(schedule, block, i, j, k, *, at_once):
    outer, step = schedule.split(k, [None, at_once])
    schedule.reorder(outer, j, step, i)
    schedule.unroll(step)


def pieces_of_eight(*parts):
    _pieces_of_a_sum(*parts, at_once=8)


def pieces_of_two(*parts):
    _pieces_of_a_sum(*parts, at_once=2)


def explicit(schedule, block, i, j, k):
    schedule.reorder(i, k, j)
    schedule.vectorize(j)


def along_the_sum(schedule, block, i, j, k):
    schedule.reorder(i, j, k)


def sums_in_memory(schedule, block, i, j, k):
    schedule.reorder(i, k, j)


def across(schedule, block, i, j, k):
    """The next row lies 96 elements further on."""
    schedule.reorder(j, i, k)
    schedule.unroll(k)


def test_a_line_of_results_whose_sums_are_written_out():
    assert plain_vectors(product(by_lines).mod) == [96]


def test_a_sum_that_goes_on_outside_counts_if_many_steps_are_written_out_for_each_load_and_store():
    for write, found in ((pieces_of_eight, 96), (pieces_of_two, 0)):
        assert plain_vectors(product(write, rows=1, depth=16).mod) == [found], write.__name__


def test_no_other_loop_counts():
    for write in (explicit, along_the_sum, sums_in_memory, across):
        assert plain_vectors(product(write).mod) == [0], write.__name__


def test_each_buffer_that_is_written_counts_by_itself():
    """A sum first, then a line that reads it."""
    x = te.placeholder((32, 48), name="x")
    k = te.reduce_axis((0, 48), name="k")
    total = te.compute((32,), lambda i: te.sum(x[i, k], axis=k), name="total")
    out = te.compute((32, 48), lambda i, j: x[i, j] - total[i], name="out")
    assert plain_vectors(tvm.IRModule({"main": te.create_prim_func([x, out])})) == [0, 48]


def gathered(n, index, *, size=256):
    """`n` elements of a vector, those that `index` names."""
    x = te.placeholder((size,), name="x")
    out = te.compute((4, n), lambda i, j: x[i + index(j)], name="out")
    return tvm.IRModule({"main": te.create_prim_func([x, out])})


def test_every_other_element_is_loaded_in_vectors_but_not_every_third():
    assert plain_vectors(gathered(48, lambda j: 2 * j)) == [48]
    assert plain_vectors(gathered(48, lambda j: 3 * j)) == [0]


def test_taps_of_a_window_are_no_vector_though_the_first_two_lie_side_by_side():
    assert plain_vectors(gathered(27, lambda j: j // 9 * 64 + j % 9 // 3 * 16 + j % 3)) == [0]


def test_an_index_that_is_loaded_is_left_out():
    rows, x = te.placeholder((16,), name="rows", dtype="int32"), te.placeholder((64, 32), name="x")
    out = te.compute((16, 32), lambda i, j: x[rows[i], j], name="out")
    assert plain_vectors(tvm.IRModule({"main": te.create_prim_func([rows, x, out])})) == [0]


def test_it_is_expected_to_win_over_a_sum_that_goes_through_memory(llvm):
    mod = matmul(64, 96, 4)
    setup = open_setup(module=save_module(mod), target=llvm, space=None, seed=0, options=SearchOptions())
    rows = extract(setup.context, [measure_candidate(product(write)) for write in (by_lines, sums_in_memory)])
    assert [round(2 ** each[0, N_WITH_CROWDING] - 1) for each in rows] == [96, 0]
    lines, memory = cost_model(make_target(llvm)).predict(rows)
    assert lines > 2 * memory
