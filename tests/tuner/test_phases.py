"""Transposed convolutions in phases of their stride: right numbers, and no product with a zero."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checks.trace import check_trace
from tests.tuner.contractions import assert_same_numbers, convolution, outputs, spaces
from tuner.module import canonical_module
from tuner.space.phase_nest import phase_nests
from tuner.space.phases import Phase, absorb_dilation, phased_of
from tuner.space.vectors import vector_unit
from tuner.target import make_target
from tuner.trace import canonical_text
from tuner.tvm_light import load_tvm

tvm = load_tvm()
te = tvm.te

few = settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


def channels_first(
    size,
    channels,
    filters,
    *,
    kernel,
    stride,
    padding=0,
    more=0,
    groups=1,
    relu=False,
    dtypes=("float32",) * 2,
):
    """As Relax lowers conv2d_transpose: the image is dilated, then padded."""
    from tvm import topi

    x = te.placeholder((1, channels, size, size + 1), dtypes[0], name="X")
    w = te.placeholder((channels, filters // groups, kernel, kernel), dtypes[0], name="W")
    out = topi.nn.group_conv2d_transpose_nchw(
        x, w, (stride, stride), (padding, padding), dtypes[1], (more, more), groups
    )
    return canonical_module(te.create_prim_func([x, w, topi.nn.relu(out) if relu else out]))


def channels_last(size, channels, filters, *, kernel, stride, padding):
    """As TVM's tests have it: the image is padded, and dilated at each read."""
    from tvm.s_tir.meta_schedule.testing import te_workload

    arguments = te_workload.conv2d_transpose_nhwc(
        1, size, size + 1, channels, filters, kernel, stride, padding
    )
    return canonical_module(te.create_prim_func(list(arguments)))


def line(size, channels, filters, *, kernel, stride):
    from tvm import topi

    x = te.placeholder((2, channels, size), name="X")
    w = te.placeholder((channels, filters, kernel), name="W")
    out = topi.nn.conv1d_transpose_ncw(x, w, (stride,), (1,), "float32", (0,))
    return canonical_module(te.create_prim_func([x, w, out]))


def phased(mod):
    schedule = tvm.s_tir.Schedule(mod, debug_mask="none")
    root = schedule.get_sblock("root")
    (block,) = [b for b in schedule.get_child_blocks(root) if schedule.get(b).init is not None]
    absorb_dilation(schedule, block)
    return phased_of(schedule.get(block))


def n_multiply_adds(schedule):
    """Of vectors in the lowered program, each with one element of the padded image."""
    from tvm.s_tir import transform
    from tvm.tirx import transform as flat

    passes = [
        transform.LowerInitBlock(), transform.PlanAndUpdateBufferAllocationLocation(),
        transform.ConvertBlocksToOpaque(), transform.CompactBufferAllocation(), transform.StmtSimplify(),
        transform.LowerOpaqueBlock(), flat.FlattenBuffer(), flat.VectorizeLoop(), flat.UnrollLoop(),
        flat.StmtSimplify(), flat.RemoveNoOp(),
    ]  # fmt: skip
    return str(tvm.ir.transform.Sequential(passes)(schedule.mod).script()).count("T.Broadcast(PadInput")


@few
@given(
    size=st.sampled_from([2, 4, 7, 13]), kernel=st.integers(2, 5), stride=st.integers(2, 3),
    padding=st.integers(0, 1), groups=st.sampled_from([1, 2]), filters=st.sampled_from([24, 13, 3]),
    seed=st.integers(0, 99),
)  # fmt: skip
def test_with_channels_first_they_give_the_numbers_of_the_untuned_program(
    llvm, size, kernel, stride, padding, groups, filters, seed
):
    mod = channels_first(
        size, 6 * groups, filters * groups, kernel=kernel + padding, stride=stride, padding=padding,
        more=seed % 2, groups=groups, relu=seed % 3 > 0,
    )  # fmt: skip
    assert_same_numbers(mod, llvm, seed=seed)


@few
@given(
    size=st.sampled_from([2, 5, 14]), kernel=st.integers(2, 5), stride=st.integers(2, 3),
    filters=st.sampled_from([8, 20, 48, 21, 1]), seed=st.integers(0, 99),
)  # fmt: skip
def test_with_channels_last_they_give_the_numbers_of_the_untuned_program(
    llvm, size, kernel, stride, filters, seed
):
    mod = channels_last(size, 5, filters, kernel=kernel, stride=stride, padding=1)
    assert_same_numbers(mod, llvm, seed=seed)


@pytest.mark.parametrize("size", [96, 95])
def test_pieces_of_a_few_lines_are_shared_by_the_cores(llvm, size):
    """As many as the search decides: columns and a line's tiles are sampled, the two lines are not."""
    mod = line(size, 4, 16, kernel=4, stride=2)
    found = spaces(mod, llvm)
    assert found
    for schedule in found:
        instructions, decisions = json.loads(canonical_text(schedule.trace))
        decided = dict(decisions)
        _, pieces = (decided[n] for n, each in enumerate(instructions) if each[0] == "SamplePerfectTile")
        cores, *_ = schedule.get_loops(schedule.get_sblock("compute_update"))
        assert int(schedule.get(cores).extent) % (2 * pieces[0]) == 0
        assert math.prod(pieces) > 8


def test_one_dimension_has_one_phase(llvm):
    mod = line(9, 4, 16, kernel=4, stride=2)
    assert len(phased(mod).phases) == 1
    assert_same_numbers(mod, llvm, seed=5)


def test_phases_are_found_in_the_conditions():
    first = phased(channels_first(7, 6, 24, kernel=3, stride=2, padding=1))
    last = phased(channels_last(7, 6, 24, kernel=4, stride=3, padding=1))
    assert set(first.phases) == {Phase(output=2, tap=5, stride=2), Phase(output=3, tap=6, stride=2)}
    assert set(last.phases) == {Phase(output=1, tap=4, stride=3), Phase(output=2, tap=5, stride=3)}
    assert (first.is_bounded, last.is_bounded) == (True, False)
    assert [axis.place for axis in first.contraction.columns] == [1]


class Ladder:
    """A schedule whose blocks have two producers each, which share theirs: 2 ** rungs ways lead up."""

    def __init__(self, rungs):
        self._rungs = rungs
        self.looked = 0

    def get(self, block):
        self.looked += 1
        return SimpleNamespace(
            name_hint=block, init=None, body=SimpleNamespace(value=SimpleNamespace()), iter_vars=[]
        )

    def get_producers(self, block):
        rung = int(block[1:])
        return [f"{side}{rung + 1}" for side in "ab"] if rung < self._rungs else []


def test_a_block_is_looked_at_once_however_many_ways_lead_to_it():
    schedule = Ladder(16)
    absorb_dilation(schedule, "a0")
    assert schedule.looked <= 4 * 2 * 16


def test_a_padded_convolution_has_none():
    assert phased(convolution(8, 16, 32, stride=2, padding=1, dilation=2, groups=1)) is None


@pytest.mark.parametrize("stride", [2, 3])
def test_a_tap_that_meets_zeros_is_not_multiplied(llvm, stride):
    """Each phase of the outputs keeps one copy of the register tile, of as many as taps have phases."""
    mod = channels_last(12, 8, 16, kernel=2 * stride, stride=stride, padding=stride)
    nests = phase_nests(phased(mod), vector_unit(make_target(llvm), "float32"))
    for nest, schedule in zip(nests, spaces(mod, llvm), strict=True):
        assert n_multiply_adds(schedule) == stride**2 * nest.tile.rows * nest.tile.columns // nest.lanes


@pytest.mark.parametrize(
    ("mod", "peels"),
    [
        (channels_first(19, 6, 56, kernel=4, stride=2, padding=1, relu=True), True),
        (channels_first(23, 5, 13, kernel=3, stride=3), False),
        (channels_last(17, 7, 24, kernel=4, stride=2, padding=1), False),
        (channels_last(20, 7, 16, kernel=4, stride=2, padding=1), True),
        (channels_last(7, 7, 24, kernel=4, stride=2, padding=1), False),
    ],
)
def test_a_line_that_no_good_tile_divides_ends_with_a_lesser_one(llvm, mod, peels):
    """Of few lines pieces are shared by the cores, and TVM cannot tell which core has the last tile."""
    first, *_ = phase_nests(phased(mod), vector_unit(make_target(llvm), "float32"))
    assert first.peels == peels
    assert first.tile.rows > 1
    assert_same_numbers(mod, llvm, seed=5, at_most=4)


@pytest.mark.parametrize(("filters", "lanes"), [(37, 8), (5, 8), (3, 4)])
def test_columns_that_fill_no_vectors_are_padded(llvm, filters, lanes):
    """Padded filters stand in the copy that is made of them, and padded results nowhere but in a tile."""
    mod = channels_last(6, 8, filters, kernel=4, stride=2, padding=1)
    nests = phase_nests(phased(mod), vector_unit(make_target(llvm), "float32"))
    assert {(nest.lanes, nest.packs, nest.pads) for nest in nests} == {(lanes, True, True)}
    for nest, schedule in zip(nests, spaces(mod, llvm), strict=True):
        assert n_multiply_adds(schedule) == 4 * nest.tile.rows * nest.tile.columns // lanes


@pytest.mark.parametrize("dtypes", [("float16", "float16"), ("int8", "int32")])
@pytest.mark.parametrize("filters", [16, 11])
def test_halves_and_bytes_give_the_numbers_of_the_untuned_program(llvm, dtypes, filters):
    mod = channels_first(5, 8, filters, kernel=3, stride=2, padding=1, dtypes=dtypes)
    generator = np.random.default_rng(0)
    arrays = [
        generator.integers(-3, 4, [int(extent) for extent in p.ty.shape]).astype(str(p.ty.dtype))
        for p in mod["main"].params
    ]
    expected = outputs(mod, llvm, arrays)
    found = spaces(mod, llvm)
    assert found
    for schedule in found[:2]:
        check_trace(json.loads(canonical_text(schedule.trace)))
        np.testing.assert_array_equal(outputs(schedule.mod, llvm, arrays), expected)
