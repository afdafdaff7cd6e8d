"""Which plans a contraction is offered, and the loops that they write. No search, no timing."""

import dataclasses
import math

import pytest

from tests.tuner.contractions import AVX2, AVX512, assert_same_numbers, convolution, spaces
from tuner.module import canonical_module
from tuner.space.axes import Axis
from tuner.space.contraction import Contraction, Operand
from tuner.space.plans import Padded, Staging, plans
from tuner.space.tiling import tile
from tuner.space.vectors import RegisterTile, VectorUnit
from tuner.trace import canonical_text
from tuner.tvm_light import load_tvm

tvm = load_tvm()

from tvm import te, topi  # noqa: E402 - after the light loader

#: AVX-512 in two steps.
SPLIT = VectorUnit(lanes=16, registers=32, fmas_per_cycle=1)


def update_extents(schedule):
    """Of the loops around the block that sums, the innermost last."""
    (update,) = [
        found
        for found in schedule.get_child_blocks(schedule.get_sblock("root"))
        if schedule.get(found).name_hint.endswith("_update")
    ]
    return [int(schedule.get(loop).extent) for loop in schedule.get_loops(update)]


def contraction(rows, columns, depth, *, slides=False):
    """Of axes with these extents; the vectors' operand has to be copied, the scalars' one need not."""
    extents = (*rows, *columns, *depth)
    axes = [Axis(place=place, extent=extent) for place, extent in enumerate(extents)]
    at, to = len(rows), len(rows) + len(columns)
    sides = tuple(axes[:at]), tuple(axes[at:to]), tuple(axes[to:])
    return Contraction(
        batch=(),
        rows=sides[0],
        columns=sides[1],
        depth=sides[2],
        scalars=Operand(read=0, places=(), contiguous=(), repeats=slides, slides=slides),
        vectors=Operand(read=1, places=(), contiguous=(), repeats=False, slides=False),
        contiguous=(),
        dtype="float32",
    )


@pytest.mark.parametrize(
    ("depth", "grain", "loops"),
    [
        ((1536,), 64, (64,)),
        ((192, 3, 3), 72, (8, 3, 3)),  # channels first
        ((3, 3, 160), 80, (80,)),  # 72 is nearer to 64, and wraps around the channels
        ((3, 3, 4, 32), 64, (2, 32)),
        ((80, 5, 5), 50, (2, 5, 5)),
        ((1031,), 1031, (1031,)),
        ((14, 11, 13), 143, (11, 13)),
        ((3, 3, 16), 48, (3, 3, 16)),  # too short to be split
        ((1, 1, 16), 16, (16,)),
    ],
)
def test_no_loop_over_the_depth_wraps_around_an_axis(depth, grain, loops):
    found = plans(contraction((14, 14), (64,), depth), AVX512)
    assert {plan.depth_grain for plan in found} == {grain}
    in_place = {plan.depth_loops for plan in found if plan.scalars is Staging.NONE}
    copied = {plan.depth_loops for plan in found if plan.scalars is not Staging.NONE}
    assert in_place == {loops}
    assert copied == {(math.prod(loops),)}


@pytest.mark.parametrize(
    ("depth", "columns", "lies_ready", "copied"),
    [
        (256, 2048, False, False),
        (512, 512, False, False),
        (1024, 1024, True, False),  # so large an operand comes from far away
        (1536, 64, True, True),
        (1031, 64, False, False),  # nothing divides it
    ],
)
def test_sums_stay_in_registers_over_a_depth_that_is_near(depth, columns, lies_ready, copied):
    of_copies = plans(contraction((512,), (columns,), (depth,)), AVX512)
    assert {plan.blocks_depth for plan in of_copies} == {copied}
    ready = contraction((512,), (columns,), (depth,))
    lying = Operand(read=1, places=(), contiguous=(ready.columns[-1].place,), repeats=False, slides=False)
    ready = dataclasses.replace(ready, vectors=lying)
    found = [plan for plan in plans(ready, AVX512) if plan.vectors is Staging.NONE]
    assert {plan.blocks_depth for plan in found} == {lies_ready}


@pytest.mark.parametrize(
    ("channels", "unit", "window", "in_pieces"),
    [
        (512, SPLIT, True, False),
        (2048, SPLIT, True, True),  # a tile's columns alone come from far away
        (512, AVX512, True, True),
        (512, SPLIT, False, True),
    ],
)
def test_a_windows_columns_may_come_from_far_where_vectors_are_split(channels, unit, window, in_pieces):
    deep = contraction((7, 7), (512,), (3, 3, channels), slides=window)
    lying = Operand(read=1, places=(), contiguous=(deep.columns[-1].place,), repeats=False, slides=False)
    found = plans(dataclasses.replace(deep, vectors=lying), unit)
    in_place = [plan for plan in found if plan.scalars is plan.vectors is Staging.NONE]
    copied = [plan for plan in found if plan not in in_place]
    assert {plan.blocks_depth for plan in in_place} == {in_pieces}
    assert {plan.blocks_depth for plan in copied} == {True}


def test_sums_of_a_window_over_its_whole_depth_have_the_same_numbers(llvm):
    mod = convolution(14, 128, 32, stride=1, padding=1, dilation=1, groups=1)
    schedule = tvm.s_tir.Schedule(mod, seed=1, debug_mask="none")
    straight = Contraction.of(schedule.get(schedule.get_sblock("conv2d_nhwc")))
    whole, pieces = (
        next(
            plan
            for plan in plans(straight, unit, padded=Padded(scalars=True))
            if plan.vectors is Staging.NONE
        )
        for unit in (SPLIT, AVX512)
    )
    assert (whole.blocks_depth, pieces.blocks_depth) == (False, True)
    tile(schedule, schedule.get_sblock("conv2d_nhwc"), straight, whole, lanes=SPLIT.lanes, cores=2)
    assert_same_numbers(mod, llvm, seed=3, found=[schedule])


@pytest.mark.parametrize("slides", [True, False])
def test_a_window_that_slides_is_read_in_place_though_its_lines_have_no_good_tile(slides):
    """Padded tiles need a copy of the window: nine times the image, element by element."""
    found = plans(contraction((25, 25), (104,), (96, 3, 3), slides=slides), AVX2)
    in_place = {plan.tile for plan in found if plan.scalars is Staging.NONE}
    assert (RegisterTile(rows=5, columns=8) in in_place) == slides


@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (1, 2), (2, 2)])
def test_channels_first_the_image_slides_and_channels_last_it_does_not(stride, dilation):
    for nchw in (True, False):
        mod = convolution(9, 8, 16, stride=stride, padding=1, dilation=dilation, groups=1, nchw=nchw)
        schedule = tvm.s_tir.Schedule(mod)
        block = schedule.get(schedule.get_sblock("conv2d_nchw" if nchw else "conv2d_nhwc"))
        straight = Contraction.of(block)
        assert (straight.vectors.slides, straight.scalars.slides) == (nchw, False)


def test_a_window_of_one_pixel_does_not_slide():
    from tvm import te, topi

    x, w = te.placeholder((1, 8, 9, 9), name="X"), te.placeholder((16, 8, 1, 1), name="W")
    mod = canonical_module(te.create_prim_func([x, w, topi.nn.conv2d_nchw(x, w, 1, 0, 1)]))
    schedule = tvm.s_tir.Schedule(mod)
    assert not Contraction.of(schedule.get(schedule.get_sblock("conv2d_nchw"))).vectors.slides


def test_a_line_of_27_has_a_whole_tile_in_16_registers():
    found = plans(contraction((27, 27), (128,), (96, 3, 3)), AVX2)
    assert RegisterTile(rows=3, columns=32) in {plan.tile for plan in found if plan.scalars is Staging.NONE}


@pytest.mark.parametrize(("rows", "vectors"), [(3, 4), (4, 3), (6, 2)])
def test_the_longer_side_of_a_register_tile_is_its_outer_loop(rows, vectors):
    """Its operands pass through one register; those of the shorter side stay in theirs."""
    mod = convolution(12, 8, 96, stride=1, padding=0, dilation=1, groups=1, nchw=False)
    schedule = tvm.s_tir.Schedule(mod)
    block = schedule.get_sblock("conv2d_nhwc")
    straight = Contraction.of(schedule.get(block))
    chosen = RegisterTile(rows=rows, columns=vectors * AVX2.lanes)
    plan = dataclasses.replace(plans(straight, AVX2)[0], tile=chosen)
    tile(schedule, block, straight, plan, lanes=AVX2.lanes, cores=2)
    extents = update_extents(schedule)
    assert extents[-3:] == [max(rows, vectors), min(rows, vectors), AVX2.lanes]


def test_the_taps_of_channels_first_are_loops_of_their_own():
    mod = convolution(8, 128, 16, stride=1, padding=1, dilation=1, groups=1, nchw=True)
    schedule = tvm.s_tir.Schedule(mod)
    block = schedule.get_sblock("conv2d_nchw")
    turned = Contraction.turned(schedule.get(block))
    plan = next(plan for plan in plans(turned, AVX2) if plan.scalars is Staging.NONE)
    assert (plan.blocks_depth, plan.depth_loops) == (True, (8, 3, 3))
    tile(schedule, block, turned, plan, lanes=AVX2.lanes, cores=2)
    extents = update_extents(schedule)
    assert extents[-6:-3] == [8, 3, 3]


def test_taps_come_first_that_share_more_scalars_than_registers_are_left_for():
    """LLVM unrolls the innermost of them: of 4 x 4 vectors it keeps six scalars, of 14 x 2 sixteen."""
    mod = convolution(27, 128, 128, stride=1, padding=1, dilation=1, groups=1, nchw=True)
    schedule = tvm.s_tir.Schedule(mod)
    block = schedule.get_sblock("conv2d_nchw")
    turned = Contraction.turned(schedule.get(block))
    in_place = [plan for plan in plans(turned, AVX512) if plan.scalars is Staging.NONE]
    assert {(plan.tile.rows, plan.tile.columns, plan.taps_first) for plan in in_place} == {
        *((14, 32, True), (4, 64, False))
    }
    chosen = next(plan for plan in in_place if plan.taps_first)
    tile(schedule, block, turned, chosen, lanes=AVX512.lanes, cores=2)
    extents = update_extents(schedule)
    assert extents[-6:-3] == [3, 8, 3]


@pytest.mark.parametrize("stride", [1, 2])
def test_taps_that_come_first_give_the_numbers_of_the_untuned_program(llvm, stride):
    size = 12 * stride - 1
    mod = convolution(size, 8, 32, stride=stride, padding=1, dilation=1, groups=1, nchw=True, relu=True)
    schedule = tvm.s_tir.Schedule(mod)
    turned = Contraction.turned(schedule.get(schedule.get_sblock("conv2d_nchw")))
    assert any(plan.taps_first for plan in plans(turned, AVX2))
    assert_same_numbers(mod, llvm, seed=4)


def test_rows_that_leave_a_remainder_are_peeled_where_they_are_read_in_place():
    """1024 is no multiple of six: with six rows by two vectors neither operand's rows are copied."""
    first, *others = plans(contraction((1024,), (1024,), (1024,)), AVX2)
    assert (first.tile, first.scalars, first.peels) == (RegisterTile(rows=6, columns=16), Staging.NONE, True)
    assert {plan.tile.rows for plan in others if plan.scalars is Staging.NONE and not plan.peels} == {4, 2}
    assert all(not plan.peels for plan in others if plan.scalars is not Staging.NONE)


@pytest.mark.parametrize("rows", [(14, 14), (12,), (5,)])
def test_lines_that_would_be_broken_and_rows_of_one_tile_are_not_peeled(rows):
    assert not any(plan.peels for plan in plans(contraction(rows, (64,), (64,)), AVX2))


@pytest.mark.parametrize(("rows", "offered"), [(101, True), (8, False)], ids=["many rows", "few"])
def test_columns_are_padded_for_a_better_tile_where_rows_are_many(rows, offered):
    """1000 columns are 125 vectors: without padding tiles of five, two rows high, are what registers hold."""
    found = plans(contraction((rows,), (1000,), (768,)), AVX2)
    in_place = {plan.tile for plan in found if plan.scalars is Staging.NONE}
    assert any(1000 % tile.columns for tile in in_place) == offered


def test_a_short_depth_is_left_to_whole_tiles():
    assert not any(plan.peels for plan in plans(contraction((1024,), (1024,), (64,)), AVX2))


@pytest.mark.parametrize(("nchw", "taps"), [(False, 1), (True, 1), (False, 3), (True, 3)])
def test_the_lines_of_a_convolution_of_one_tap_are_one(nchw, taps):
    """Its tiles go on in the next line; those of a window may not."""
    mod = of_taps(taps, nchw=nchw)
    schedule = tvm.s_tir.Schedule(mod, debug_mask="none")
    name = "conv2d_nchw" if nchw else "conv2d_nhwc"
    found = Contraction.of(schedule.get(schedule.get_sblock(name)))
    assert (found.columns_in_line if nchw else found.rows_in_line) == (taps == 1)
    pixels = [plan.tile.columns if nchw else plan.tile.rows for plan in plans(found, AVX2)]
    assert any(10 % size for size in pixels) or taps == 3


@pytest.mark.parametrize("nchw", [False, True])
def test_tiles_that_go_on_in_the_next_line_give_the_numbers_of_the_untuned_program(llvm, nchw):
    mod = of_taps(1, nchw=nchw)
    found = spaces(mod, llvm)
    assert any("PadEinsum" not in canonical_text(each.trace) for each in found)
    assert_same_numbers(mod, llvm, seed=0, at_most=len(found))


def of_taps(taps, *, nchw):
    """A convolution of 12 lines of 10 pixels."""
    image = (1, 6, 12, 10) if nchw else (1, 12, 10, 6)
    filters = (16, 6, taps, taps) if nchw else (taps, taps, 6, 16)
    x, w = te.placeholder(image, name="X"), te.placeholder(filters, name="W")
    convolve = topi.nn.conv2d_nchw if nchw else topi.nn.conv2d_nhwc
    return canonical_module(te.create_prim_func([x, w, convolve(x, w, 1, taps // 2, 1)]))


def test_a_padded_image_is_padded_before_or_within_a_tile():
    shape = contraction((14, 14), (64,), (3, 3, 160))
    found = plans(shape, AVX512, padded=Padded(scalars=True))
    assert not any(plan.pads_within for plan in plans(shape, AVX512))
    assert {plan.pads_within for plan in found if plan.scalars is Staging.NONE} == {False, True}
    assert not any(plan.pads_within for plan in found if plan.scalars is not Staging.NONE)
