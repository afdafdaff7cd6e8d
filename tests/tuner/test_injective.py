"""Functions without a sum: what lies side by side is one line, what does not is transposed in squares."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tuner.contractions import AVX2, AVX512, assert_same_numbers, computed, matmul, tvm
from tuner.space import image_vectors
from tuner.space.image_vectors import ImageVectors
from tuner.space.injective import Line, Squares, injectives_of
from tuner.space.injective_rule import one_by_one
from tuner.space.unrolled import Unrolled
from tuner.target import make_target

CORES = 2


def only_block(mod):
    schedule = tvm.s_tir.Schedule(mod, debug_mask="none")
    *others, block = schedule.get_child_blocks(schedule.get_sblock("root"))
    for each in others:
        schedule.compute_inline(each)
    return schedule, block


def ways(mod):
    schedule, block = only_block(mod)
    return injectives_of(schedule, block, AVX2, cores=CORES)


def batch_norm(channels, size):
    def function(topi, x, scale):
        return topi.nn.relu(topi.multiply(x, scale))

    return computed(function, (1, channels, size, size), (1, channels, 1, 1))


def transpose(shape, order):
    return computed(lambda topi, x: topi.transpose(x, order), shape)


def test_a_line_ends_where_an_operand_has_no_neighbour():
    """The scale of a channel is one for its whole image."""
    first, *_ = ways(batch_norm(64, 28))
    assert first == Line(n_outer=2, cuts=False, first=2, lanes=1)


def test_what_lies_alike_everywhere_is_one_line_and_cut_for_the_cores():
    mod = computed(lambda topi, x, y: topi.add(x, y), (1 << 16,), (1 << 16,))
    first, *others = ways(mod)
    assert first == Line(n_outer=1, cuts=True, first=1, lanes=1)
    assert not others


def test_a_choice_is_made_for_a_line_and_not_within_it():
    """Of two images that are joined the channel decides: it is no part of a line."""
    mod = computed(lambda topi, x, y: topi.concatenate([x, y], axis=1), (1, 16, 56, 56), (1, 8, 56, 56))
    assert {way.first for way in ways(mod)} == {2}


def test_a_line_is_cut_where_its_choices_change():
    """Images with channels last that are joined, and a rotary embedding: within a part LLVM makes vectors."""
    joined = computed(lambda topi, x, y: topi.concatenate([x, y], axis=-1), (1, 28, 28, 96), (1, 28, 28, 32))
    first, second, *_ = ways(joined)
    assert (first.first, first.n_parts) == (3, 4)
    assert second.n_parts == 1
    odd = computed(lambda topi, x, y: topi.concatenate([x, y], axis=-1), (1, 28, 28, 96), (1, 28, 28, 31))
    assert {way.n_parts for way in ways(odd)} == {1}


def test_an_axis_that_is_not_understood_hides_no_other():
    """A shuffle of channels copies whole images, and a table is looked up row by row."""
    shuffled = computed(
        lambda topi, x: topi.reshape(
            topi.transpose(topi.reshape(x, (1, 2, 58, 28, 28)), (0, 2, 1, 3, 4)), (1, 116, 28, 28)
        ),
        (1, 116, 28, 28),
    )
    assert ways(shuffled)[0].first == 2
    looked_up = computed(
        lambda topi, x: topi.take(x, topi.cast(topi.arange(0, 64, 1, "int32"), "int32"), axis=0),
        (64, 56, 96),
    )
    assert ways(looked_up)[0].first == 1


def resized(channels, size, method="linear", mode="half_pixel", n=1):
    def function(topi, x):
        return topi.image.resize2d(x, (0.0,) * 4, (2 * size, 2 * size), "NCHW", method, mode)

    return computed(function, (n, channels, size, size))


def written_out(mod):
    return [way for way in ways(mod) if isinstance(way, Unrolled)]


def test_a_line_whose_places_are_computed_is_written_out_for_two_channels_at_a_time():
    assert written_out(resized(64, 16)) == [Unrolled(beside=1, together=2, n_outer=2)]
    # Three channels are too few for the cores: they share the lines as well.
    assert written_out(resized(3, 64)) == [Unrolled(beside=1, together=3, n_outer=3)]
    # One channel has no other line but its own next one.
    assert written_out(resized(1, 128)) == [Unrolled(beside=2, together=2, n_outer=3)]


def test_images_of_which_there_are_enough_are_vectors():
    def of_images(mod):
        return [way for way in ways(mod) if isinstance(way, ImageVectors)]

    assert of_images(resized(64, 16)) == [
        ImageVectors(images=1, lanes=8, read=1, written=1, is_parallel=True)
    ]
    # Of each image's channels, and of several images where their channels alone fill fewer lanes.
    (of_channels,) = of_images(resized(16, 16, n=8))
    assert (of_channels.images, of_channels.n_axes, of_channels.lanes) == (1, 1, 8)
    (of_both,) = of_images(resized(18, 16, n=4))
    assert (of_both.images, of_both.n_axes, of_both.lanes, of_both.ends) == (0, 2, 8, False)
    # The last vector of fifty holds two, and 17 would keep one core waiting for another.
    (ending,) = of_images(resized(50, 26))
    assert (ending.lanes, ending.ends) == (8, True)
    assert not of_images(resized(9, 32))
    # Eight of 128 x 128 fill their cache, a line of each at a time does not.
    assert [way.by_lines for way in of_images(resized(64, 64))] == [True]
    # Three fill no vector, four are one piece for two cores, and four of 192 x 192 fill their cache.
    assert not of_images(resized(3, 64))
    assert of_images(resized(48, 64))
    assert not of_images(resized(4, 64))
    assert [way.lanes for way in of_images(resized(64, 128))] == [4]
    assert not of_images(resized(64, 192))
    assert not of_images(batch_norm(64, 28))


@pytest.mark.parametrize("method", ["nearest_neighbor", "linear", "cubic"])
@pytest.mark.parametrize(
    ("shape", "size"),
    [
        ((2, 32, 9, 13), (18, 26)),
        ((1, 64, 15, 8), (7, 11)),
        ((4, 18, 16, 12), (32, 24)),
        ((4, 6, 5, 7), (9, 8)),
        ((1, 205, 5, 5), (10, 10)),
        ((3, 37, 9, 8), (14, 17)),
    ],
)
def test_resized_images_have_the_numbers_of_the_untuned_program(llvm, method, shape, size):
    def function(topi, x):
        return topi.image.resize2d(x, (0.0,) * 4, size, "NCHW", method, "half_pixel")

    assert_every_way(computed(function, shape), llvm, seed=6)


@pytest.mark.parametrize(
    ("shape", "size"),
    [
        ((2, 32, 9, 13), (18, 26)),
        ((4, 18, 8, 6), (17, 13)),
        ((1, 64, 9, 8), (33, 16)),
        ((1, 59, 12, 13), (19, 18)),
    ],
)
def test_large_images_leave_their_vectors_line_by_line(llvm, monkeypatch, shape, size):
    monkeypatch.setattr(image_vectors, "_MAX_PIECE", 8 * shape[2] * shape[3])
    mod = computed(
        lambda topi, x: topi.image.resize2d(x, (0.0,) * 4, size, "NCHW", "linear", "half_pixel"), shape
    )
    assert [way.by_lines for way in ways(mod) if isinstance(way, ImageVectors)] == [True]
    assert_every_way(mod, llvm, seed=7)


def test_what_would_be_much_code_or_is_looked_up_is_no_line_to_write_out():
    assert not written_out(resized(64, 256))
    assert not written_out(resized(64, 64, method="cubic"))
    assert not written_out(batch_norm(64, 28))
    assert not written_out(
        computed(
            lambda topi, x: topi.take(x, topi.cast(topi.arange(0, 96, 1, "int32"), "int32"), axis=2),
            (64, 56, 96),
        )
    )


def test_operands_whose_neighbours_lie_apart_are_transposed_in_squares():
    found = ways(transpose((1, 56, 56, 64), (0, 3, 1, 2)))
    squares = [way for way in found if isinstance(way, Squares)]
    assert {(way.groups, way.across, way.lanes) for way in squares} == {((2, 2), 0, 8)}
    assert {way.rows for way in squares} == {16, 8, 4}
    assert not any(isinstance(way, Squares) for way in ways(transpose((8, 64, 4, 32), (0, 2, 1, 3))))


@pytest.mark.parametrize(("size", "lanes"), [(26, 16), (32, 8), (64, 8), (47, 16)])
def test_images_a_multiple_of_4_kib_apart_are_vectors_of_no_more_than_have_room(size, lanes):
    schedule, block = only_block(resized(64, size))
    found = image_vectors.image_vectors_of(schedule.get(block), AVX512, cores=CORES)
    assert [way.lanes for way in found] == [lanes]


def test_squares_that_do_not_come_out_even_end_with_lesser_ones():
    """A fused loop over images and squares is not parted: the cores share images alone, if enough."""
    squares = [way for way in ways(transpose((197, 211), (1, 0))) if isinstance(way, Squares)]
    assert {(way.lanes, way.rows, way.ends) for way in squares} == {
        (8, 16, (True, True)),
        (8, 4, (True, True)),
        (8, 8, (True, True)),
    }
    assert {way.spreads_across for way in squares} == {False, True}
    few = [way for way in ways(transpose((3, 197, 256), (0, 2, 1))) if isinstance(way, Squares)]
    assert {(way.spreads_across, way.ends) for way in few} == {(True, (False, True))}
    many = [way for way in ways(transpose((12, 197, 64), (0, 2, 1))) if isinstance(way, Squares)]
    assert {way.spreads_across for way in many} == {False, True}
    narrow = [way for way in ways(transpose((3, 197), (1, 0))) if isinstance(way, Squares)]
    assert {(way.lanes, way.rows, way.ends) for way in narrow} == {(8, 3, (True, False))}


def test_more_cores_than_elements_are_no_reason_to_look_for_ever():
    schedule, block = only_block(batch_norm(64, 28))
    (way, *_) = injectives_of(schedule, block, AVX2, cores=1 << 20)
    assert way.n_outer == 4


def test_little_is_left_to_one_core():
    assert {way.n_outer for way in ways(batch_norm(4, 8))} == {0}
    assert {way.n_outer for way in ways(computed(lambda topi, x: topi.exp(x), (64, 128)))} == {1}


def test_a_function_that_sums_has_rules_of_its_own():
    schedule, block = only_block(computed(lambda topi, x: topi.nn.relu(x), (64, 1024)))
    target = make_target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": CORES})
    assert one_by_one(schedule, block, target)
    summing = tvm.s_tir.Schedule(matmul(64, 64, 64, epilogue=True), debug_mask="none")
    assert not one_by_one(summing, summing.get_sblock("D"), target)


def assert_every_way(mod, target, *, seed):
    schedule, block = only_block(mod)
    found = one_by_one(schedule, block, make_target(target))
    assert found
    assert_same_numbers(mod, target, seed=seed, at_most=len(found), found=found)


@pytest.mark.parametrize(
    ("shape", "order"),
    [
        ((197, 211), (1, 0)),
        ((897, 33), (1, 0)),
        ((2, 197, 256), (0, 2, 1)),
        ((12, 65, 67), (0, 2, 1)),
        ((1, 50, 29, 29), (0, 2, 3, 1)),
        ((1, 29, 29, 50), (0, 3, 1, 2)),
        ((1, 3, 113, 113), (0, 2, 3, 1)),
    ],
)
def test_squares_that_end_with_lesser_ones_give_the_same_numbers(llvm, shape, order):
    """Large enough for several cores."""
    schedule, block = only_block(transpose(shape, order))
    found = one_by_one(schedule, block, make_target(llvm))
    hints = [each.mod.script().count("pragma_loop_partition_hint") for each in found]
    assert max(hints) >= 2
    assert_every_way(transpose(shape, order), llvm, seed=1)


SIZES = (1, 2, 3, 4, 5, 7, 8, 14, 16, 17, 30, 49, 57, 64)


@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_layouts_give_the_numbers_of_the_untuned_program(llvm, data):
    shape = data.draw(
        st.lists(st.sampled_from(SIZES), min_size=1, max_size=4).filter(lambda s: math.prod(s) < 1 << 20)
    )
    order = data.draw(st.permutations(range(len(shape))))
    shift = data.draw(st.sampled_from(list(itertools.product((1, 0), repeat=len(shape)))))
    bias = [extent if keeps else 1 for extent, keeps in zip((shape[at] for at in order), shift, strict=True)]
    mod = computed(lambda topi, x, y: topi.nn.relu(topi.add(topi.transpose(x, order), y)), shape, bias)
    assert_every_way(mod, llvm, seed=len(shape))


@pytest.mark.parametrize(
    "function",
    [
        lambda topi, x: topi.nn.pad(x, [0, 0, 1, 2], [0, 0, 3, 1]),
        lambda topi, x: topi.concatenate([x, topi.nn.relu(x)], axis=3),
        lambda topi, x: topi.concatenate([x, topi.nn.relu(x)], axis=2),
        lambda topi, x: topi.concatenate([topi.transpose(x, (0, 2, 3, 1))] * 3, axis=3),
        lambda topi, x: topi.transpose(topi.concatenate([x, topi.negative(x)], axis=1), (0, 2, 3, 1)),
        lambda topi, x: topi.reshape(
            topi.transpose(topi.reshape(x, (2, 3, 8, 17, 30)), (0, 2, 1, 3, 4)), (2, 24, 17, 30)
        ),
        lambda topi, x: topi.strided_slice(x, [0, 1, 1, 0], [2, 24, 17, 30], [1, 2, 1, 3]),
        lambda topi, x: topi.reshape(x, (2, 17 * 24, 30)),
        lambda topi, x: topi.flip(x, axis=3),
        lambda topi, x: topi.nn.depth_to_space(x, 2, "NCHW"),
        lambda topi, x: topi.image.resize2d(
            x, (0.0,) * 4, (34, 60), "NCHW", "nearest_neighbor", "asymmetric", "round"
        ),
        lambda topi, x: topi.image.resize2d(
            x, (0.0,) * 4, (34, 60), "NCHW", "linear", "half_pixel"
        ),
        lambda topi, x: topi.image.resize2d(
            x, (0.0,) * 4, (17, 31), "NCHW", "cubic", "align_corners"
        ),
        lambda topi, x: topi.image.resize2d(
            x, (0.0,) * 4, (48, 30), "NHWC", "linear", "half_pixel"
        ),
        lambda topi, x: topi.tanh(topi.transpose(x, (3, 2, 1, 0))),
    ],
)  # fmt: skip
def test_what_moves_elements_gives_the_numbers_of_the_untuned_program(llvm, function):
    assert_every_way(computed(function, (2, 24, 17, 30)), llvm, seed=3)
