"""Tiles of a convolution's rows: the place of each row is its tile's and a constant, whatever was sampled."""

import json

import pytest

from tests.tuner.contractions import assert_same_numbers, spaces, te, tvm
from tuner.expressions import has_division, summands
from tuner.module import canonical_module
from tuner.trace import apply_trace, canonical_text

_SEEDS = 8


def _square(size, channels, filters, *, stride=1, padding=1, dilation=1, groups=1):
    """Lines of an even number of pixels, which tiles divide."""
    from tvm.s_tir.meta_schedule.testing import te_workload

    window = (3, stride, padding, dilation, groups)
    parts = te_workload.conv2d_nhwc(1, size, size, channels, filters, *window)
    return canonical_module(te.create_prim_func(parts))


def _in_place(mod, target):
    """Our schedules that copy no operand."""
    return [each for each in spaces(mod, target) if "ReIndex" not in canonical_text(each.trace)]


def _update(schedule):
    children = schedule.get_child_blocks(schedule.get_sblock("root"))
    (update,) = [each for each in children if schedule.get(each).name_hint.endswith("_update")]
    return update


def _is_plain(loop, realize):
    """A summand of where the block stores, and nothing is divided that holds it."""
    from tvm.tirx.analysis import undefined_vars

    bound = list(zip(realize.block.iter_vars, realize.iter_values, strict=True))
    places = [part for index in realize.block.body.indices for part in summands(index)]
    values = [value for axis, value in bound if any(axis.var.same_as(place) for place in places)]
    plain = [part for value in values for part in summands(value) if not has_division(part)]
    return any(loop.same_as(variable) for part in plain for variable in undefined_vars(part, []))


@pytest.mark.parametrize("mcpu", ["znver3", "znver4", "cascadelake"])
@pytest.mark.parametrize(("size", "filters"), [(56, 64), (28, 32)])
def test_a_row_of_a_tile_lies_a_constant_behind_the_first(mcpu, size, filters):
    """Else LLVM takes two rows for the same memory."""
    mod = _square(size, 16, filters)
    found = _in_place(mod, {"kind": "llvm", "mcpu": mcpu, "num-cores": 2})
    assert found
    for each in found:
        instructions, _ = json.loads(canonical_text(each.trace))
        for seed in range(1, _SEEDS + 1):
            schedule = apply_trace([instructions, []], mod, rand_state=seed)
            loops = [schedule.get(loop) for loop in schedule.get_loops(_update(schedule))]
            unrolled = [loop.loop_var for loop in loops if loop.kind == tvm.tirx.ForKind.UNROLLED]
            assert len(unrolled) == 2
            assert all(_is_plain(loop, loops[-1].body) for loop in unrolled)


@pytest.mark.parametrize(
    ("size", "filters", "window"),
    [
        (12, 32, {}),
        (4, 64, {}),
        (16, 32, {"stride": 2}),
        (12, 32, {"padding": 2, "dilation": 2}),
        (12, 64, {"groups": 2}),
        (14, 32, {"padding": 0}),
    ],
    ids=["padded", "tiles of several lines", "strided", "dilated", "grouped", "without padding"],
)
def test_they_give_the_numbers_of_the_untuned_program(llvm, size, filters, window):
    mod = _square(size, 16, filters, **window)
    found = _in_place(mod, llvm)
    for seed in range(3):
        assert_same_numbers(mod, llvm, seed=seed, found=found, at_most=len(found))
