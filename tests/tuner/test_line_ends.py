"""Convolutions whose lines no register tile divides, or no vector: each line ends with a lesser tile."""

import pytest

from tests.tuner.contractions import assert_same_numbers, convolution, spaces
from tuner.space import contraction_rule
from tuner.space.tiling import PEELED
from tuner.trace import canonical_text


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
    found = [each for each in spaces(mod, llvm) if PEELED in canonical_text(each.trace)]
    assert found
    assert_same_numbers(mod, llvm, seed=11, found=found, at_most=len(found))


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
    found = [each for each in spaces(mod, llvm) if PEELED in canonical_text(each.trace)]
    assert_same_numbers(mod, llvm, seed=5, found=found, at_most=len(found))
    monkeypatch.setattr(contraction_rule, "_by_lines", lambda contraction, *_: (contraction, []))
    assert len(found) > sum(PEELED in canonical_text(each.trace) for each in spaces(mod, llvm))
