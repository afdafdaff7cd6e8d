"""What stands at computed places is fetched for a few lines, and then joined to what lies beside."""

import pytest

from tests.tuner.contractions import assert_same_numbers, computed, spaces_of_function, tvm
from tuner.space.fetched import Fetched, fetched_by, fetched_of, fetches
from tuner.trace import canonical_text

ENOUGH = 8


def enlarged(topi, x, *, times=2, method="nearest_neighbor"):
    _, _, rows, columns = (int(extent) for extent in x.shape)
    size = (times * rows, times * columns)
    return topi.image.resize2d(x, (0.0,) * 4, size, "NCHW", method, "half_pixel")


def added(channels, rows, columns, *, times=2, **kinds):
    return computed(
        lambda topi, x, y: topi.nn.relu(topi.add(enlarged(topi, x, times=times, **kinds), y)),
        (1, channels, rows, columns),
        (1, channels, times * rows, times * columns),
    )


def with_its_producer(mod):
    """The last block, and before it the first; what is between them is inlined."""
    schedule = tvm.s_tir.Schedule(mod, debug_mask="none")
    first, *others, last = schedule.get_child_blocks(schedule.get_sblock("root"))
    for each in others:
        schedule.compute_inline(each)
    return schedule, first, last


def ways(mod, *, enough=ENOUGH):
    schedule, _, last = with_its_producer(mod)
    return list(fetched_of(schedule, last, enough=enough))


def test_lines_are_fetched_together_or_an_image_at_once():
    assert ways(added(32, 7, 10)) == [
        Fetched(lines=2, is_image=False, n_outer=2),
        Fetched(lines=7, is_image=False, n_outer=2),
        Fetched(lines=1, is_image=True, n_outer=2),
        Fetched(lines=2, is_image=True, n_outer=2),
    ]
    # One core has all of it.
    assert {way.n_outer for way in ways(added(32, 7, 10), enough=0)} == {0}
    # The cores share the lines of three images; and 128 x 128 would not stay near.
    assert ways(added(3, 64, 64)) == [
        Fetched(lines=2, is_image=False, n_outer=3),
        Fetched(lines=4, is_image=False, n_outer=3),
    ]


def test_what_nothing_is_joined_to_or_what_lies_evenly_is_not_fetched():
    schedule, first, last = with_its_producer(added(32, 7, 10))
    assert fetches(schedule, first)
    assert fetched_by(schedule, last) is not None
    assert not fetches(schedule, last)
    for function in (
        lambda topi, x, y: topi.nn.relu(topi.concatenate([topi.nn.relu(enlarged(topi, x)), y], axis=1)),
        lambda topi, x, y: topi.add(topi.nn.pad(x, [0, 0, 0, 0], [0, 0, 7, 10]), y),
        lambda topi, x, y: topi.add(
            topi.transpose(enlarged(topi, x), (0, 1, 3, 2)), topi.transpose(y, (0, 1, 3, 2))
        ),
    ):
        mod = computed(function, (1, 32, 7, 10), (1, 32, 14, 20))
        schedule, first, last = with_its_producer(mod)
        assert not fetches(schedule, first)
        assert not ways(mod)


def test_of_several_images_all_follow_the_first_that_is_inlined():
    """Else design spaces would double with each."""

    def function(topi, x, *others):
        found = enlarged(topi, x)
        for other in others:
            found = topi.add(found, enlarged(topi, other))
        return topi.nn.relu(found)

    mod = computed(function, *[(1, 24, 6, 8)] * 4)
    schedule = tvm.s_tir.Schedule(mod, debug_mask="none")
    blocks = schedule.get_child_blocks(schedule.get_sblock("root"))
    resized = [each for each in blocks if "resize" in str(schedule.get(each).name_hint)]
    assert len(resized) == 4
    assert fetches(schedule, resized[1])
    schedule.compute_inline(resized[0])
    assert not fetches(schedule, resized[1])


@pytest.mark.parametrize("method", ["nearest_neighbor", "linear"])
@pytest.mark.parametrize("sizes", [(24, 6, 8), (5, 9, 13), (40, 7, 11), (2, 32, 24)])
@pytest.mark.parametrize("times", [2, 3])
def test_every_design_space_has_the_numbers_of_the_untuned_program(llvm, method, sizes, times):
    mod = added(*sizes, times=times, method=method)
    apart = [space for space in spaces_of_function(mod, llvm) if "ComputeAt" in canonical_text(space.trace)]
    assert apart
    assert_same_numbers(mod, llvm, seed=sum(sizes), at_most=len(apart), found=apart)
