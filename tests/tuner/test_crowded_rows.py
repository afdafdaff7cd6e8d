"""Rows a multiple of 4 KiB apart: few at once are read in place, and copies lay them out otherwise."""

import re

import pytest

from tests.tuner.contractions import AVX512, assert_same_numbers, convolution, matmul, spaces, tvm
from tuner.space.contraction import Contraction
from tuner.space.plans import Staging, plans
from tuner.trace import canonical_text

LINE = 16  # numbers of 4 bytes


def contraction_of(mod, name="C"):
    schedule = tvm.s_tir.Schedule(mod, debug_mask="none")
    return Contraction.of(schedule.get(schedule.get_sblock(name)))


@pytest.mark.parametrize(
    ("depth", "rows"),
    [
        (1024, 8),
        (2048, 8),
        (512, 16),  # every second row in one set
        (256, 32),
        (768, 32),
        (1024 + LINE, 32),
    ],
)
def test_as_many_rows_have_room_as_a_set_has_lines(depth, rows):
    assert contraction_of(matmul(64, 64, depth)).roomy_rows == rows


def test_a_stride_lays_pixels_twice_as_far_apart():
    sizes = {"padding": 0, "dilation": 1, "groups": 1}
    found = [
        contraction_of(convolution(9, 512, 16, stride=stride, **sizes), "conv2d_nhwc") for stride in (1, 2)
    ]
    assert [each.roomy_rows for each in found] == [16, 8]


@pytest.mark.parametrize("depth", [512, 1024, 768])
def test_no_more_rows_are_read_in_place_than_have_room(depth):
    contraction = contraction_of(matmul(196, 256, depth))
    found = plans(contraction, AVX512)
    in_place = {plan.tile.rows for plan in found if plan.scalars is Staging.NONE}
    copied = {plan.tile.rows for plan in found if plan.scalars is not Staging.NONE}
    assert max(in_place) <= contraction.roomy_rows
    assert max(copied) == 14


def row_bytes(mod):
    """How far apart the rows of the one scratch buffer lie that is not compact, in the lowered program."""
    passes = tvm.s_tir.transform
    steps = [
        passes.PlanAndUpdateBufferAllocationLocation(),
        passes.ConvertBlocksToOpaque(),
        passes.CompactBufferAllocation(),
    ]
    text = tvm.ir.transform.Sequential(steps)(mod).script()
    (strides,) = re.findall(r"strides=\(([^)]*)\)", text)
    return 4 * int(strides.split(",")[-2])


def test_rows_of_a_copy_lie_an_odd_number_of_lines_apart(llvm):
    mod = matmul(56, 64, 1024)
    copied = [each for each in spaces(mod, llvm) if "StorageAlign" in canonical_text(each.trace)]
    assert {row_bytes(each.mod) % 128 for each in copied} == {64}


def test_copied_rows_give_the_numbers_of_the_untuned_program(llvm):
    mod = matmul(56, 64, 1024)
    copied = [each for each in spaces(mod, llvm) if "StorageAlign" in canonical_text(each.trace)]
    assert copied
    assert_same_numbers(mod, llvm, seed=1, at_most=len(copied), found=copied)


def test_a_padding_lays_rows_apart_that_would_crowd(llvm):
    mod = convolution(9, 512, 32, stride=2, padding=1, dilation=1, groups=1)
    apart = [each for each in spaces(mod, llvm) if "StorageAlign" in canonical_text(each.trace)]
    in_place = [each for each in apart if "inputs_reindex" not in str(each.mod)]
    assert in_place
    assert_same_numbers(mod, llvm, seed=2, at_most=len(in_place), found=in_place)
