"""When a round is due, how large it is and who pays are functions of rows."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from db.progress import OpenTask
from db.rounds import OpenTrials, RoundResult
from db.searches import Search
from db.states import DesiredState, JobState, Purpose, SearchState, TrialState
from services.tuning.allocation import best_so_far
from services.tuning.dispatch import Fairness, Plan, Waiting, chunk_size, deadline_secs, next_chunk
from services.tuning.rounds import batch_size, round_is_due, share, warm_up_limit
from services.tuning.settings import TunerSettings
from workers.messages import MeasurePolicy

SETTINGS = TunerSettings(database_url="sqlite://", broker_url="memory://")
SEARCH = Search(
    id=1,
    workload_id=1,
    target_id=1,
    target_key="0" * 64,
    target={},
    tvm_version="0.27.0",
    space=None,
    strategy="evolutionary",
    seed=0,
    policy={},
    options={},
    state=SearchState.ACTIVE,
    error=None,
    rounds=3,
    crashes=0,
    untuned_latency_secs=None,
    best_latency_secs=None,
    flops=1.0,
)
TASK = OpenTask(
    id=1,
    job_id="job-1",
    search_id=1,
    ordinal=0,
    weight=1.0,
    trials_reserved=0,
    job_trials_reserved=0,
    max_trials=10,
    max_trials_per_task=None,
    priority=0,
    owner="tests",
    job_state=JobState.RUNNING,
    desired_state=DesiredState.RUNNING,
)


def open_in(round_: int, **values: Any) -> OpenTrials:
    fields: dict[str, Any] = {
        "search_id": 1,
        "job_id": "job-1",
        "task_id": 1,
        "job_state": JobState.RUNNING,
        "purpose": Purpose.SEARCH,
        "state": TrialState.QUEUED,
        "built": False,
        "count": 1,
    }
    return OpenTrials(round=round_, **fields | values)


@pytest.mark.parametrize(
    ("open_trials", "due"),
    [
        ([], True),
        ([open_in(2)], True),
        ([open_in(1)], False),
        ([open_in(1, state=TrialState.DISPATCHED)], False),
        ([open_in(1, purpose=Purpose.CONFIRM)], True),
        ([open_in(1, job_state=JobState.PAUSED)], True),
        ([open_in(0, search_id=2)], True),
    ],
)
def test_round_three_waits_for_rounds_zero_and_one(open_trials: list[OpenTrials], due: bool) -> None:  # noqa: FBT001 - a column of the table above
    assert round_is_due(SEARCH, open_trials) is due


def test_the_first_rounds_are_small_and_options_decide() -> None:
    large = replace(SEARCH, options={"batch_size": 32})
    assert batch_size(replace(large, rounds=9), SETTINGS) == 32
    assert [batch_size(replace(large, rounds=rounds), SETTINGS) for rounds in range(5)] == [8, 8, 16, 16, 32]
    assert batch_size(replace(SEARCH, options={"batch_size": 4}, rounds=2), SETTINGS) == 4
    assert batch_size(replace(SEARCH, options={"batch_size": 1}, rounds=0), SETTINGS) == 1


def test_urgent_jobs_pay_first_then_who_was_charged_least() -> None:
    urgent = replace(TASK, id=2, job_id="job-2", priority=5, max_trials=2)
    behind = replace(TASK, id=3, job_id="job-3")
    ahead = replace(TASK, trials_reserved=2, job_trials_reserved=2)
    assert [task.id for task in share([ahead, behind, urgent], 7)] == [2, 2, 3, 3, 1, 3, 1]


def test_who_may_not_run_pays_nothing() -> None:
    paused = replace(TASK, desired_state=DesiredState.PAUSED)
    assert share([paused], 3) == []


@given(st.integers(1, 8), st.integers(0, 100), st.integers(1, 16))
def test_a_small_budget_reaches_every_task_of_its_job(count: int, spare: int, batch: int) -> None:
    budget, reserved = count + spare, [0] * count
    for chosen in range(count):
        job = [
            replace(
                TASK,
                id=number,
                search_id=number,
                trials_reserved=reserved[number],
                job_trials_reserved=sum(reserved),
                max_trials=budget,
            )
            for number in range(count)
        ]
        limit = warm_up_limit(job, chosen)
        assert limit is not None
        reserved[chosen] = len(share([job[chosen]], min(limit, batch)))
    assert min(reserved) >= 1
    assert sum(reserved) <= budget


def test_a_warm_task_leaves_the_cold_ones_their_share_and_later_takes_all() -> None:
    warm = replace(TASK, search_id=1, trials_reserved=6, job_trials_reserved=6, max_trials=12)
    cold = replace(warm, id=2, search_id=2, trials_reserved=0)
    assert warm_up_limit([warm, cold], 1) == 3
    assert warm_up_limit([warm, cold], 2) == 6
    assert warm_up_limit([warm, replace(cold, trials_reserved=3)], 1) is None


tasks = st.builds(
    lambda number, job, reserved, most, cap: replace(
        TASK,
        id=number,
        job_id=f"job-{job}",
        trials_reserved=reserved,
        job_trials_reserved=reserved,
        max_trials=most,
        max_trials_per_task=cap,
    ),
    st.integers(0, 9),
    st.integers(0, 2),
    st.integers(0, 5),
    st.integers(0, 12),
    st.none() | st.integers(0, 8),
)


@given(st.lists(tasks, max_size=5, unique_by=lambda task: task.id), st.integers(0, 30))
def test_no_budget_is_ever_exceeded(drawn: list[OpenTask], count: int) -> None:
    # Tasks of one job tell the same of their job.
    jobs = {task.job_id: (task.max_trials, task.job_trials_reserved) for task in drawn}
    some = [
        replace(task, max_trials=jobs[task.job_id][0], job_trials_reserved=jobs[task.job_id][1])
        for task in drawn
    ]
    paid = share(some, count)
    assert len(paid) <= count
    for job_id, (most, reserved) in jobs.items():
        charged = sum(payer.job_id == job_id for payer in paid)
        assert charged == 0 or reserved + charged <= most
    for task in some:
        mine = sum(payer.id == task.id for payer in paid)
        if mine and task.max_trials_per_task is not None:
            assert task.trials_reserved + mine <= task.max_trials_per_task
    if len(paid) < count:
        charged_of = {task.id: sum(payer.id == task.id for payer in paid) for task in some}
        assert all(
            jobs[task.job_id][0] <= jobs[task.job_id][1] + sum(p.job_id == task.job_id for p in paid)
            or (
                task.max_trials_per_task is not None
                and task.max_trials_per_task <= task.trials_reserved + charged_of[task.id]
            )
            for task in some
        )


def test_a_rounds_course_is_the_best_so_far_of_finished_rounds() -> None:
    latencies = (None, 3.0, 4.0, 1.0)
    results = {number: RoundResult(closed=1, latency_secs=secs) for number, secs in enumerate(latencies)}
    assert best_so_far(results, {3}) == (None, 3.0, 3.0)


@pytest.mark.parametrize(("secs", "size"), [(0.75, 16), (10.0, 4), (0.001, 32), (0.0, 16)])
def test_a_chunk_aims_at_twelve_seconds_of_work(secs: float, size: int) -> None:
    assert chunk_size([{"build": secs / 2, "measure": secs / 2, "wait": 60.0}], SETTINGS) == size


def test_one_slow_trial_makes_no_small_chunks() -> None:
    quick, slow = {"build": 0.6}, {"build": 10.0}
    assert chunk_size([quick, slow, quick], SETTINGS) == 20


def test_equal_jobs_take_turns_and_urgent_ones_do_not_wait() -> None:
    fairness = Fairness()
    kind = Waiting(search_id=1, target_id=1, job_id="a", purpose=Purpose.SEARCH, priority=0, count=20)
    queued = [kind, replace(kind, job_id="b", search_id=2)]
    turns = []
    for _ in range(4):
        chosen = next_chunk(queued, room=16, size=8, dispatched={}, fairness=fairness)
        assert chosen is not None
        assert chosen.limit == 7
        fairness.count(chosen.waiting.job_id)
        turns.append(chosen.waiting.job_id)
    assert turns == ["a", "b", "a", "b"]
    assert next_chunk([kind], room=32, size=18, dispatched={}, fairness=fairness) == Plan(
        waiting=kind, limit=10
    )
    urgent = replace(kind, job_id="c", priority=1, count=3)
    chosen = next_chunk([*queued, urgent], room=16, size=8, dispatched={"c": 16}, fairness=fairness)
    assert chosen is not None
    assert (chosen.waiting.job_id, chosen.limit) == ("c", 3)


def test_a_deadline_leaves_time_for_all_that_waits_before() -> None:
    policy = MeasurePolicy(build_timeout_secs=4.0, run_timeout_secs=6.0)
    assert deadline_secs(policy, ahead=8, size=8, devices=2, settings=SETTINGS) == 30.0 + 10.0 * (4 + 8)
