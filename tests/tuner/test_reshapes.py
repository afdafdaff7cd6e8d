"""Buffers of other axes in the same order: inlined, and what is made of a row's sum joins its loop."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.tuner.contractions import assert_same_numbers, computed, spaces_of_function
from tuner.space.reshapes import inline_reshape
from tuner.trace import canonical_text
from tuner.tvm_light import load_tvm

tvm = load_tvm()


def group_norm(shape, groups):
    def build(topi, x, scale, shift):
        axes = list(range(2, len(shape)))
        return topi.nn.group_norm(x, scale, shift, groups, 1, axes)

    return computed(build, shape, (shape[1],), (shape[1],))


def row_loops(space):
    """What a trace merged: blocks follow one another in one loop, as our row rule leaves them."""
    instructions, _ = json.loads(canonical_text(space.trace))
    return [instruction for instruction in instructions if instruction[0] == "Merge"]


@pytest.mark.parametrize(
    ("shape", "groups"),
    [
        ((1, 12, 8, 8), 4),
        ((2, 20, 7, 9), 5),  # groups that end within a vector
        ((3, 6, 40), 3),
        ((2, 8, 3, 4, 8), 2),
        ((2, 48, 5, 5), 12),  # images that end within one
    ],
)
def test_a_group_normalisation_is_one_pass_over_each_group(llvm, shape, groups):
    mod = group_norm(shape, groups)
    found = [space for space in spaces_of_function(mod, llvm) if row_loops(space)]
    assert len(found) == 1
    assert len(found[0].get_child_blocks(found[0].get_sblock("root"))) == 6  # no copy of the image among them
    assert_same_numbers(mod, llvm, seed=1, found=found)


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(
    batch=st.integers(1, 3), groups=st.integers(1, 4), channels=st.integers(1, 5),
    image=st.lists(st.integers(1, 13), min_size=1, max_size=2), seed=st.integers(0, 99),
)  # fmt: skip
def test_of_any_extents_whatever_forms_there_are_give_these_numbers(
    llvm, batch, groups, channels, image, seed
):
    mod = group_norm((batch, groups * channels, *image), groups)
    found = spaces_of_function(mod, llvm)
    if found:
        assert_same_numbers(mod, llvm, seed=seed, found=found, at_most=2)


def test_few_groups_are_summed_in_pieces_too(llvm):
    """One group keeps one core of two busy."""
    mod = group_norm((1, 16, 64, 64), 1)
    found = spaces_of_function(mod, llvm)
    assert not all(row_loops(space) for space in found)
    assert_same_numbers(mod, llvm, seed=2, found=found)


def test_one_long_line_goes_over_the_cores_in_pieces(llvm):
    mod = computed(lambda topi, x, g, b: topi.nn.layer_norm(x, g, b, [1]), (1, 98304), (98304,), (98304,))
    found = [space for space in spaces_of_function(mod, llvm) if not row_loops(space)]
    assert found
    for space in found:
        *_, last = space.get_child_blocks(space.get_sblock("root"))
        cores = space.get(space.get_loops(last)[0])
        assert (int(cores.kind), int(cores.extent)) == (1, 8)
    assert_same_numbers(mod, llvm, seed=3, found=found)


def blocks_after_inlining(mod):
    schedule = tvm.s_tir.Schedule(mod, debug_mask="none")
    names = [str(schedule.get(b).name_hint) for b in schedule.get_child_blocks(schedule.get_sblock("root"))]
    for name in names:
        inline_reshape(schedule, name)
    left = [str(schedule.get(b).name_hint) for b in schedule.get_child_blocks(schedule.get_sblock("root"))]
    return names, left


def test_only_what_keeps_the_order_is_inlined():
    turned = computed(lambda topi, x: topi.sum(topi.transpose(x), axis=1), (8, 24))
    kept = computed(lambda topi, x: topi.sum(topi.reshape(x, (6, 32)), axis=1), (8, 24))
    names, left = blocks_after_inlining(turned)
    assert left == names
    names, left = blocks_after_inlining(kept)
    assert len(left) == len(names) - 1


def test_what_a_contraction_reads_stays_and_so_does_the_output():
    mod = computed(lambda topi, x, w: topi.nn.dense(topi.reshape(x, (16, 32)), w), (4, 4, 32), (24, 32))
    names, left = blocks_after_inlining(mod)
    assert left == names
    mod = computed(lambda topi, x: topi.reshape(topi.sum(x, axis=1), (4, 4)), (16, 32))
    names, left = blocks_after_inlining(mod)
    assert left == names
