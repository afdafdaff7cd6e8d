"""Budgets are never exceeded, whoever charges at the same time; jobs end as their tasks did."""

import threading

import pytest
from sqlalchemy import Engine, update

from db import progress
from db.session import reading, transaction
from db.states import JobState, TaskState
from db.tables import JobRow, TaskRow
from tests.tuning.rows import add_job, add_search, add_target, read


def _search(engine: Engine, name: str = "w", target_id: int | None = None) -> int:
    return add_search(engine, target_id or add_target(engine), name=name)


def _two_tasks(engine: Engine) -> list[int]:
    target_id = add_target(engine)
    searches = [_search(engine, name, target_id) for name in ("a", "b")]
    return add_job(engine, searches, state="running", max_trials=20)


def _charge_often(engine: Engine, search_id: int) -> int:
    charged = 0
    for _ in range(10):
        with transaction(engine) as session:
            [task] = progress.open_tasks(session, [search_id])
            charged += 3 * progress.charge(session, task, 3)
    return charged


def test_a_budget_is_never_exceeded_by_charges_at_the_same_time(engine: Engine) -> None:
    search_id = _search(engine)
    add_job(engine, [search_id], state="running", max_trials=20)
    charged: list[int] = []
    threads = [
        threading.Thread(target=lambda: charged.append(_charge_often(engine, search_id))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(charged) == 18
    assert read(engine, JobRow.trials_reserved) == read(engine, TaskRow.trials_reserved) == [18]


def test_a_tasks_own_cap_binds_and_leaves_the_job_uncharged(engine: Engine) -> None:
    search_id = _search(engine)
    add_job(engine, [search_id], state="running", max_trials=20, max_trials_per_task=5)
    with transaction(engine) as session:
        [task] = progress.open_tasks(session, [search_id])
        assert task.budget_left == 5
        assert progress.charge(session, task, 4)
        assert not progress.charge(session, task, 2)
    assert read(engine, JobRow.trials_reserved) == [4]


def test_a_lowered_budget_leaves_none(engine: Engine) -> None:
    search_id = _search(engine)
    add_job(engine, [search_id], state="running", max_trials=2, trials_reserved=8)
    with reading(engine) as session:
        [task] = progress.open_tasks(session, [search_id])
    assert task.budget_left == 0


@pytest.mark.parametrize(("column", "value"), [("desired_state", "cancelled"), ("state", "paused")])
def test_a_job_that_may_not_run_is_not_charged(engine: Engine, column: str, value: str) -> None:
    search_id = _search(engine)
    add_job(engine, [search_id], state="running")
    with transaction(engine) as session:
        [task] = progress.open_tasks(session, [search_id])
        session.execute(update(JobRow).values({column: value}))
        assert not progress.charge(session, task, 1)


def test_a_start_keeps_the_first_starting_time(engine: Engine) -> None:
    search_id = _search(engine)
    add_job(engine, [search_id])
    with transaction(engine) as session:
        assert progress.start_job(session, "job-1")
        assert not progress.start_job(session, "job-1")
    first = read(engine, JobRow.started_at)
    with transaction(engine) as session:
        session.execute(update(JobRow).values(desired_state="paused"))
        assert progress.pause_job(session, "job-1")
        session.execute(update(JobRow).values(desired_state="running"))
        assert progress.start_job(session, "job-1")
    assert read(engine, JobRow.started_at) == first
    assert read(engine, TaskRow.state) == [TaskState.RUNNING]
    assert read(engine, JobRow.revision) == [4]


def test_a_job_fails_only_if_all_its_tasks_fail(engine: Engine) -> None:
    first, second = _two_tasks(engine)
    with transaction(engine) as session:
        assert progress.end_task(session, first, state=TaskState.FAILED, error="no reference")
        assert progress.end_job_if_done(session, "job-1") is None
        assert progress.end_task(session, second, state=TaskState.SUCCEEDED, record_id=7)
        assert progress.end_job_if_done(session, "job-1") is JobState.SUCCEEDED
    assert read(engine, JobRow.error) == [None]


def test_a_failed_job_says_why_each_task_failed(engine: Engine) -> None:
    tasks = _two_tasks(engine)
    with transaction(engine) as session:
        for task_id in tasks:
            progress.end_task(session, task_id, state=TaskState.FAILED, error="no reference")
        assert progress.end_job_if_done(session, "job-1") is JobState.FAILED
    assert read(engine, JobRow.error) == ["f0: no reference; f1: no reference"]


def test_a_cancelled_job_does_not_start_or_end_again(engine: Engine) -> None:
    [task_id] = add_job(engine, [_search(engine)], state="running", desired_state="cancelled")
    with transaction(engine) as session:
        assert progress.cancel_job(session, "job-1")
        assert not progress.cancel_job(session, "job-1")
        assert not progress.end_task(session, task_id, state=TaskState.SUCCEEDED)
        assert progress.end_job_if_done(session, "job-1") is None
    assert read(engine, JobRow.state) == [JobState.CANCELLED]
