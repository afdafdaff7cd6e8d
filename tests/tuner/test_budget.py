"""The next round goes where it is expected to gain most."""

from hypothesis import given
from hypothesis import strategies as st

from tuner.budget import TaskProgress, expected_gain_secs, next_task


def task(task_id, latencies=(), *, weight=1.0, flops=1e6, **more):
    return TaskProgress(task_id=task_id, weight=weight, flops=flops, latencies=tuple(latencies), **more)


def test_each_task_gets_one_round_first_the_heaviest_first():
    tasks = [task(1, flops=1e6), task(2, flops=1e9), task(3, flops=1e8, weight=100.0)]
    assert next_task(tasks) == 3
    tasks[2] = task(3, rounds_out=1)
    assert next_task(tasks) == 2
    tasks[1] = task(2, [1.0])
    assert next_task(tasks) == 1


def test_the_slower_task_gains_more():
    assert next_task([task(1, [1e-3]), task(2, [5e-3])]) == 2


def test_a_weight_counts_as_so_many_calls():
    assert next_task([task(1, [1e-3], weight=6.0), task(2, [5e-3])]) == 1


def test_the_gain_is_ansors_formula():
    improving = task(1, [8e-3, 6e-3, 5e-3, 4e-3, 2e-3], weight=2.0)
    assert expected_gain_secs(improving) == 2.0 * (0.2 * (6e-3 - 2e-3) / 3 + 0.8 * 2e-3 / 5)
    assert expected_gain_secs(task(1, [4e-3, 2e-3])) == 0.2 * 2e-3 + 0.8 * 2e-3 / 2


def test_a_plateau_loses_to_a_task_that_still_improves():
    flat = task(1, [2e-3] * 8)
    improving = task(2, [9e-3, 8e-3, 6e-3, 5e-3, 4e-3, 3e-3, 2.5e-3, 2e-3])
    assert next_task([flat, improving]) == 2


def test_rounds_in_flight_spread_the_batches():
    assert next_task([task(1, [3e-3], rounds_out=3), task(2, [2e-3])]) == 2


def test_a_task_that_only_fails_waits_for_the_others():
    failing, slow = task(1, [None, None]), task(2, [1e-6] * 10)
    assert next_task([failing, slow]) == 2
    assert next_task([failing, task(2, done=True)]) == 1


def test_nothing_is_left_when_all_are_done_or_at_their_cap():
    assert next_task([]) is None
    assert next_task([task(1, done=True), task(2, [1.0], trials=64, max_trials=64)]) is None


latencies = st.lists(st.one_of(st.none(), st.floats(1e-6, 1.0)), max_size=6)
tasks = st.lists(
    st.builds(
        lambda found, weight, out, done: (found, weight, out, done),
        latencies, st.floats(0.1, 100.0), st.integers(0, 3), st.booleans(),
    ),
    max_size=6,
)  # fmt: skip


@given(tasks)
def test_the_choice_is_open_and_does_not_depend_on_the_order_of_rows(rows):
    progress = [
        task(index, found, weight=weight, rounds_out=out, done=done)
        for index, (found, weight, out, done) in enumerate(rows)
    ]
    chosen = next_task(progress)
    assert chosen == next_task(progress[::-1])
    assert (chosen is None) == all(row.done for row in progress)
    assert chosen is None or not progress[chosen].done
