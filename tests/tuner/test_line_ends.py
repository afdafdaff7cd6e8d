"""Convolutions whose lines no register tile divides, or no vector: each line ends with a lesser tile."""

import pytest

from tests.tuner.contractions import AVX2, AVX512, assert_same_numbers, convolution, spaces
from tuner.space import contraction_rule
from tuner.space.registers import PEELED
from tuner.trace import canonical_text


def peeled(mod, target):
    return [each for each in spaces(mod, target) if PEELED in canonical_text(each.trace)]


@pytest.mark.parametrize(
    ("size", "stride", "padding", "groups", "relu"),
    [(16, 1, 1, 1, True), (18, 1, 0, 1, False), (32, 2, 1, 1, True), (16, 1, 1, 2, True)],
    ids=["padded", "without padding", "strided", "grouped"],
)
def test_lines_that_no_tile_divides_end_with_a_lesser_one(llvm, size, stride, padding, groups, relu):
    """17 pixels: the image is read where it lies, not copied tap by tap."""
    mod = convolution(
        size, 32 * groups, 48 * groups, stride=stride, padding=padding, dilation=1, groups=groups, relu=relu
    )
    found = peeled(mod, llvm)
    assert found
    assert_same_numbers(mod, llvm, seed=11, found=found, at_most=len(found))


@pytest.mark.parametrize(
    ("channels", "filters", "groups", "relu"),
    [(8, 24, 1, True), (8, 20, 1, False), (8, 12, 1, True), (20, 20, 2, False)],
)
@pytest.mark.parametrize("mcpu", ["znver4", "cascadelake", "haswell"])
def test_so_do_lines_by_filters_that_fill_no_whole_vectors(channels, filters, groups, relu, mcpu):
    """As good as a padded vector can be is good enough: the image would be copied tap by tap."""
    target = {"kind": "llvm", "mcpu": mcpu, "num-cores": 2}
    mod = convolution(40, channels, filters, stride=1, padding=1, dilation=1, groups=groups, relu=relu)
    assert peeled(mod, target)


@pytest.mark.parametrize(("size", "channels", "filters"), [(27, 32, 3), (38, 8, 5)])
def test_so_do_lines_of_few_filters_channels_first(llvm, monkeypatch, size, channels, filters):
    """Half as good as a padded tile is good enough here too."""
    monkeypatch.setattr(contraction_rule, "vector_unit", lambda *_: AVX512)
    mod = convolution(size, channels, filters, stride=1, padding=1, dilation=1, groups=1, nchw=True)
    found = peeled(mod, llvm)
    assert found
    assert_same_numbers(mod, llvm, seed=4, found=found, at_most=len(found))


@pytest.mark.parametrize(("channels", "filters", "groups"), [(8, 24, 1), (8, 20, 1), (20, 20, 2)])
def test_they_give_the_numbers_of_the_untuned_program(llvm, channels, filters, groups):
    mod = convolution(40, channels, filters, stride=1, padding=1, dilation=1, groups=groups, relu=True)
    found = peeled(mod, llvm)
    assert_same_numbers(mod, llvm, seed=3, found=found, at_most=len(found))


@pytest.mark.parametrize(
    ("channels", "filters", "groups", "stride"),
    [(16, 15, 2, 1), (9, 14, 3, 2)],
    ids=["one is missing", "strided"],
)
def test_lines_of_groups_whose_filters_fill_no_vectors_are_padded_in_a_copy(
    llvm, monkeypatch, channels, filters, groups, stride
):
    """Groups are of both operands, lines of the image alone: no axis of the block is of both."""
    monkeypatch.setattr(contraction_rule, "vector_unit", lambda *_: AVX2)
    images, kernels, relu = channels * groups, filters * groups, stride == 1
    mod = convolution(32, images, kernels, stride=stride, padding=1, dilation=1, groups=groups, relu=relu)
    found = [each for each in peeled(mod, llvm) if "PadEinsum" in canonical_text(each.trace)]
    assert found
    assert_same_numbers(mod, llvm, seed=9, found=found, at_most=len(found))


@pytest.mark.parametrize(
    ("size", "filters", "stride", "dilation", "relu"),
    [(22, 23, 1, 1, True), (22, 11, 1, 2, False), (36, 31, 2, 1, True)],
    ids=["odd filters", "dilated", "strided"],
)
def test_lines_of_channels_first_that_fill_no_vectors_are_rows_instead(
    llvm, monkeypatch, size, filters, stride, dilation, relu
):
    """23 pixels, or nineteen strided, by an odd number of filters: vectors of those, each line by itself."""
    mod = convolution(
        size, 32, filters, stride=stride, padding=dilation, dilation=dilation, groups=1, nchw=True, relu=relu
    )
    found = peeled(mod, llvm)
    assert_same_numbers(mod, llvm, seed=5, found=found, at_most=len(found))
    monkeypatch.setattr(contraction_rule, "_by_lines", lambda contraction, *_: (contraction, []))
    assert len(found) > len(peeled(mod, llvm))


def test_with_16_registers_lines_of_28_end_with_a_lesser_tile_though_four_rows_divide_them(llvm):
    """Six by two vectors keep both units busy; four by two just wait for their sums."""
    mod = convolution(27, 32, 32, stride=1, padding=1, dilation=1, groups=1, relu=True)
    found = peeled(mod, llvm)
    assert found
    assert_same_numbers(mod, llvm, seed=7, found=found, at_most=len(found))


@pytest.mark.parametrize(
    ("channels", "filters"), [(3, 64), (256, 512)], ids=["short sums", "columns of each line from far"]
)
def test_such_lines_keep_whole_tiles_where_ends_cost_more(llvm, channels, filters):
    mod = convolution(27, channels, filters, stride=1, padding=1, dilation=1, groups=1, relu=False)
    assert not peeled(mod, llvm)
