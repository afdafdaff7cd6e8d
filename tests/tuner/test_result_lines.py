"""Contractions of a few steps, by lines of results."""

import pytest

from tests.tuner.contractions import AVX2, assert_same_numbers, computed, convolution, matmul, te, tvm
from tuner.module import canonical_module
from tuner.space.contraction import Contraction
from tuner.space.result_lines import result_lines_of, write_result_lines


def contraction_of(mod, name="C"):
    schedule = tvm.s_tir.Schedule(mod, debug_mask="none")
    return schedule, Contraction.of(schedule.get(schedule.get_sblock(name)))


def assert_lines_are_right(mod, llvm, name="C"):
    schedule, contraction = contraction_of(mod, name)
    (lines,) = result_lines_of(contraction, AVX2)
    write_result_lines(schedule, schedule.get_sblock(name), contraction, lines)
    assert_same_numbers(mod, llvm, seed=1, found=[schedule])
    return lines, schedule


@pytest.mark.parametrize(
    ("rows", "columns", "depth", "epilogue", "side_by_side"),
    [(48, 35, 11, False, 4), (48, 35, 11, True, 4), (31, 77, 1, True, 1), (54, 9, 2, False, 6)],
)
def test_few_steps_of_columns_that_fill_no_vectors(llvm, rows, columns, depth, epilogue, side_by_side):
    mod = matmul(rows, columns, depth, epilogue=epilogue)
    lines, schedule = assert_lines_are_right(mod, llvm)
    assert lines.rows == side_by_side
    # Nothing is kept beside the results: what an epilogue reads is a line's one column, in registers.
    assert str(schedule.mod.script()).count("sblock_alloc_buffer") == epilogue


@pytest.mark.parametrize(
    ("rows", "columns", "depth", "epilogue"), [(48, 1024, 2, True), (31, 77, 5, False), (16, 9200, 2, True)]
)
def test_columns_that_lie_along_the_depth_are_turned_once(llvm, rows, columns, depth, epilogue):
    """As the weights of a dense layer do. A large copy is shared by the cores."""
    lines, schedule = assert_lines_are_right(
        matmul(rows, columns, depth, epilogue=epilogue, transposed=True), llvm
    )
    assert lines.turns
    script = str(schedule.mod.script())
    assert script.count("T.parallel") == 1 + (columns * depth > 1 << 14)
    assert f"sblock_alloc_buffer(({depth}, {columns}))" in script


def test_a_batch_whose_columns_lie_along_the_depth(llvm):
    batched = computed(
        lambda topi, x, y: topi.nn.batch_matmul(x, y, transpose_b=True), (3, 10, 3), (3, 21, 3)
    )
    assert_lines_are_right(batched, llvm, "T_batch_matmul_NT")


def test_a_batch_and_a_convolution_of_one_tap(llvm):
    batched = computed(
        lambda topi, x, y: topi.nn.batch_matmul(x, y, transpose_b=False), (3, 10, 7), (3, 7, 21)
    )
    assert_lines_are_right(batched, llvm, "T_batch_matmul_NN")
    assert_lines_are_right(
        convolution(12, 5, 34, stride=1, padding=0, dilation=1, groups=1, kernel=1), llvm, "conv2d_nhwc"
    )


@pytest.mark.parametrize("relu", [False, True])
def test_images_with_channels_first_are_lines_of_pixels_whole_and_in_pieces(llvm, relu):
    """Of one tap. In pieces all filters pass while a few channels' pixels stay near."""

    def convolved(topi, x, w):
        out = topi.nn.conv2d_nchw(x, w, 1, 0, 1)
        return topi.nn.relu(out) if relu else out

    mod = computed(convolved, (4, 5, 40, 40), (11, 5, 1, 1))
    schedule, contraction = contraction_of(mod, "conv2d_nchw")
    assert result_lines_of(contraction, AVX2) == ()  # the next image lies elsewhere
    images = contraction.by_images()
    assert images.extents == (11, 1600, 5)
    whole, pieces = result_lines_of(images, AVX2)
    assert (whole.rows, whole.piece, pieces.rows, pieces.piece) == (1, None, 1, 800)
    for lines in (whole, pieces):
        written = schedule.copy()
        write_result_lines(written, written.get_sblock("conv2d_nchw"), images, lines)
        assert_same_numbers(mod, llvm, seed=1, found=[written])


@pytest.mark.parametrize(
    ("rows", "columns", "depth", "transposed", "n_forms"),
    [
        (24, 35, 12, False, 1),
        (24, 35, 13, False, 0),  # register tiles do better
        (24, 64, 6, False, 1),
        (24, 64, 7, False, 0),  # whole vectors write nothing twice
        (24, 7, 2, False, 0),  # less than a vector
        (7, 1001, 2, False, 0),  # too few rows for the cores
        (24, 35, 4, True, 1),  # the columns' operand lies along the depth, and is turned
        (24, 35, 7, True, 0),
    ],
)
def test_they_are_offered_where_results_are_most_of_the_work(rows, columns, depth, transposed, n_forms):
    _, contraction = contraction_of(matmul(rows, columns, depth, transposed=transposed))
    assert len(result_lines_of(contraction, AVX2)) == n_forms


def test_columns_of_two_axes_are_no_line():
    a, b = te.placeholder((24, 5), name="A"), te.placeholder((3, 5, 11), name="B")
    k = te.reduce_axis((0, 5), name="k")
    c = te.compute((24, 3, 11), lambda i, j, o: te.sum(a[i, k] * b[j, k, o], axis=k), name="C")
    _, contraction = contraction_of(canonical_module(te.create_prim_func([a, b, c])))
    assert contraction.extents == (24, 33, 5)
    assert result_lines_of(contraction, AVX2) == ()
