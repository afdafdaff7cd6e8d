"""Columns that are padded to whole tiles: their copies and what follows have conditions at the end alone."""

import pytest

from tests.tuner.contractions import assert_same_numbers, computed, matmul, spaces
from tuner.space.registers import PEELED
from tuner.trace import canonical_text

_ZEN5 = {"kind": "llvm", "mcpu": "znver5", "num-cores": 2}
_SHAPES = (1, 12, 7, 9), (1, 12, 1, 1), (17, 12, 1, 1), (1, 17, 1, 1)


def _scaled_with_bias(topi, x, scale, w, bias):
    """1 x 1, channels first: 63 pixels in a row, twelve channels to seventeen."""
    return topi.add(topi.nn.conv2d_nchw(topi.multiply(x, scale), w, 1, 0, 1), bias)


def _bordered(topi, x, w):
    return topi.nn.conv2d_nchw(x, w, 1, 1, 1)


def _padded(mod):
    return [each for each in spaces(mod, _ZEN5) if "PadEinsum" in canonical_text(each.trace)]


def _hinted(schedule, names):
    """Of these blocks, with how many of their loops TVM's LoopPartition has to do."""
    return {
        name: sum(PEELED in schedule.get(loop).annotations for loop in schedule.get_loops(found))
        for found in schedule.get_child_blocks(schedule.get_sblock("root"))
        if (name := schedule.get(found).name_hint).startswith(names)
    }


def test_neither_a_copy_that_scales_nor_a_bias_is_computed_under_conditions():
    found = _padded(computed(_scaled_with_bias, *_SHAPES))
    hinted = [_hinted(each, ("T_multiply_reindex_pad", "T_add")) for each in found]
    copied = [each for each in hinted if len(each) == 2]
    assert copied
    assert all(min(each.values()) > 0 for each in copied)


@pytest.mark.parametrize("mcpu", ["znver5", "znver3"])
def test_their_numbers_are_those_of_the_untuned_program(llvm, mcpu):
    mod = computed(_scaled_with_bias, *_SHAPES)
    found = [
        each
        for each in spaces(mod, {**_ZEN5, "mcpu": mcpu})
        if PEELED in (text := canonical_text(each.trace)) and "PadEinsum" in text
    ]
    assert found
    assert_same_numbers(mod, llvm, seed=5, found=found, at_most=len(found))


@pytest.mark.parametrize(("rows", "columns"), [(50, 33), (50, 63), (31, 17), (34, 129)])
def test_so_are_those_of_products_whose_last_tile_is_nearly_empty_or_nearly_full(llvm, rows, columns):
    """A loop over a tile's vectors of which the last tile has none or one must not begin before its first."""
    mod = matmul(rows, columns, 300)
    found = _padded(mod)
    assert any(PEELED in canonical_text(each.trace) for each in found)
    assert_same_numbers(mod, llvm, seed=rows, found=found, at_most=len(found))


def test_an_image_that_has_a_border_as_well_is_left_alone():
    """TVM would part the copy by the border's conditions too, line by line."""
    found = _padded(computed(_bordered, (1, 12, 7, 9), (17, 12, 3, 3)))
    hinted = [_hinted(each, ("pad_temp",)) for each in found]
    assert hinted
    assert all(not any(each.values()) for each in hinted)


def test_what_is_different_for_each_column_may_wait_for_its_condition():
    """A mask does for it: LLVM loads and stores parts of vectors."""
    found = _padded(matmul(50, 63, 300, epilogue=True))
    hinted = [_hinted(each, ("D",)) for each in found]
    assert hinted
    assert all(not any(each.values()) for each in hinted)
