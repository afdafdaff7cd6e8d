"""Who writes at the same time waits for the other, and never both: locks go search, job, trial, each by id.

PostgreSQL alone: SQLite has one writer. Each test holds what one side has locked first and lets the other run
into it; a deadlock ends the test as the server reports it.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest
from sqlalchemy import Engine, insert, select, text, update
from sqlalchemy.orm import Session

from db import lookup_traffic, progress, searches
from db.lookup_traffic import MissKey, Traffic
from db.progress import OpenJob
from db.reports import Reports
from db.session import transaction
from db.states import DesiredState, JobState, TrialState
from db.tables import JobRow, TaskRow, TrialRow
from services.tuning import intents, plan
from tests.tuning.rows import add_job, add_search, add_target, add_trials, claim, read, states

pytestmark = pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
_WAITING = text(
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
)


@contextmanager
def meanwhile(engine: Engine, work: Callable[[], object]) -> Iterator[None]:
    """`work` in a thread, until it waits for a lock or is done; what it raises is raised at the end."""
    errors: list[Exception] = []

    def run() -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - told to the test's own thread
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    deadline = time.monotonic() + 10
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        while thread.is_alive() and not connection.execute(_WAITING).scalar_one():
            assert time.monotonic() < deadline
            time.sleep(0.01)
    try:
        yield
    finally:
        thread.join(10)
    if errors:
        raise errors[0]


@pytest.fixture
def search_ids(engine: Engine) -> list[int]:
    target_id = add_target(engine)
    return [add_search(engine, target_id, name=name) for name in ("a", "b")]


def _attach(session: Session, search_id: int, *, ordinal: int) -> None:
    """As a submission does: a task refers to a search that is there."""
    workload_id = session.scalars(select(TaskRow.workload_id).where(TaskRow.search_id == search_id)).first()
    task = {"job_id": "job-2", "ordinal": ordinal, "name": "f", "workload_id": workload_id}
    session.execute(insert(TaskRow).values(**task, search_id=search_id))


def test_a_submission_and_a_batch_of_results_never_wait_for_each_other(
    engine: Engine, search_ids: list[int]
) -> None:
    """The job names the searches in another order than results lock them."""
    tasks = add_job(engine, search_ids, state="running")
    trial_ids = [add_trials(engine, s, t, 1)[0] for s, t in zip(search_ids, tasks, strict=True)]
    add_job(engine, search_ids[:1], job_id="job-2")
    with transaction(engine) as session:
        _attach(session, search_ids[1], ordinal=1)

        def results() -> None:
            with transaction(engine) as other:
                Reports.open(other, trial_ids)

        with meanwhile(engine, results):
            _attach(session, search_ids[0], ordinal=2)
            session.commit()
    assert len(read(engine, TaskRow.id, TaskRow.job_id == "job-2")) == 3


def test_a_submission_does_not_wait_for_who_tunes_the_same(engine: Engine, search_ids: list[int]) -> None:
    add_job(engine, search_ids, state="running")
    add_job(engine, search_ids[:1], job_id="job-2")
    lease = claim(engine, search_ids[0])
    with transaction(engine) as tuner, transaction(engine) as submission:
        assert searches.fence(tuner, lease)
        progress.lock_jobs(tuner, ["job-1", "job-2"])
        submission.execute(text("SET LOCAL lock_timeout = '2s'"))
        _attach(submission, search_ids[0], ordinal=1)


def test_a_cancel_waits_for_results_before_it_locks_any_trial(engine: Engine, search_ids: list[int]) -> None:
    """Trials lie on disk in another order than that of their ids, and are read as they lie."""
    with engine.begin() as connection:
        for scan in ("indexscan", "indexonlyscan", "bitmapscan"):
            connection.execute(text(f"ALTER DATABASE {engine.url.database} SET enable_{scan} TO off"))
    engine.dispose()
    [task_id] = add_job(engine, search_ids[:1], state="running", desired_state="cancelled")
    first, second = add_trials(engine, search_ids[0], task_id, 2, state=TrialState.DISPATCHED, attempt=1)
    with transaction(engine) as session:
        session.execute(update(TrialRow).where(TrialRow.id == first).values(chunk_id="moved"))
    job = OpenJob(id="job-1", state=JobState.RUNNING, desired_state=DesiredState.CANCELLED, open_tasks=1)
    with transaction(engine) as session:
        Reports.open(session, [first])
        with meanwhile(engine, lambda: intents.follow(engine, job)):
            Reports.open(session, [second])
            session.commit()
    assert states(engine) == {"cancelled": 2}


def test_who_takes_cancelled_trials_over_locks_their_jobs_in_the_order_of_all(
    engine: Engine, search_ids: list[int]
) -> None:
    [old] = add_job(engine, search_ids[:1], state="running", trials_reserved=1)
    [new] = add_job(engine, search_ids[:1], job_id="job-2", state="running")
    [trial_id] = add_trials(engine, search_ids[0], old, 1, state=TrialState.CANCELLED)
    with transaction(engine) as session:
        session.execute(update(TaskRow).where(TaskRow.id == old).values(state="failed", trials_reserved=1))
    lease = claim(engine, search_ids[0])
    with transaction(engine) as session:
        progress.lock_jobs(session, ["job-1"])
        with meanwhile(engine, lambda: plan.take_over_cancelled(engine, lease, payers={new}, limit=1)):
            progress.lock_jobs(session, ["job-2"])
            session.commit()
    assert read(engine, TrialRow.task_id, TrialRow.id == trial_id) == [new]
    assert read(engine, JobRow.trials_reserved) == [0, 1]


def test_revisions_are_raised_in_the_order_in_which_jobs_are_locked(
    engine: Engine, search_ids: list[int]
) -> None:
    for job_id in ("job-2", "job-1"):
        add_job(engine, search_ids[:1], job_id=job_id, state="running")

    def raise_both() -> None:
        with transaction(engine) as session:
            progress.raise_revisions(session, {"job-1", "job-2"})

    with transaction(engine) as session:
        progress.lock_jobs(session, ["job-1"])
        with meanwhile(engine, raise_both):
            progress.lock_jobs(session, ["job-2"])
            session.commit()
    assert read(engine, JobRow.revision) == [2, 2]


def test_what_two_processes_count_of_lookups_is_added_up(engine: Engine) -> None:
    """Each names targets and misses in an order of its own."""
    hour = datetime(2026, 11, 22, 12, tzinfo=UTC)
    one = Traffic(hits=1, near=1, misses=1)

    def add(session: Session, *keys: str) -> None:
        missed = {MissKey(shash=key, target_key=key, tvm_version="0.27"): 1 for key in keys}
        lookup_traffic.add_traffic(
            session, dict.fromkeys(keys, one), missed, {key: {"kind": "llvm"} for key in keys}, hour=hour
        )

    def both() -> None:
        with transaction(engine) as session:
            add(session, "b", "a")

    with transaction(engine) as session:
        add(session, "a")
        with meanwhile(engine, both):
            add(session, "b")
            session.commit()
    with transaction(engine) as session:
        (found,) = lookup_traffic.traffic_by_hour(session, within_secs=1e9)
        missed = lookup_traffic.most_missed(session, limit=9)
    assert found.traffic == Traffic(hits=4, near=4, misses=4)
    assert [each.count for each in missed] == [2, 2]
