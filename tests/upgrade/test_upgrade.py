"""A farm that any older release filled goes on after `db upgrade`, with every row that it had.

A new migration is covered as it is: the rows of each revision before it are written, and compared.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, MetaData, select
from sqlalchemy.orm import Session

import db.caller_tables
import db.farm_tables  # noqa: F401 - completes the metadata
from db import (
    attempts,
    curves,
    jobs,
    lookup_traffic,
    migrate,
    progress,
    publishing,
    records,
    records_table,
    searches,
    signatures,
    tasks,
    trials_view,
    workers,
)
from db.dispatched import dispatched_trials
from db.reports import Measured, Reports
from db.session import transaction
from db.states import Outcome, TrialState
from db.tables import Row
from tests.upgrade.old_rows import (
    ALL_TRIALS,
    BEST,
    JOB,
    MODULE,
    SHASH,
    TRACE,
    TRIALS,
    TVM_VERSION,
    filled_at,
    revisions,
)

Rows = dict[str, list[dict[str, Any]]]

REVISIONS = revisions()


@pytest.fixture
def old_engine(empty_database_url: str, revision: str) -> Iterator[Engine]:
    """A database that a release of that revision filled."""
    engine = filled_at(empty_database_url, revision)
    assert migrate.current_revision(engine) == revision
    yield engine
    engine.dispose()


@pytest.mark.parametrize("revision", REVISIONS)
def test_no_row_of_an_older_release_is_lost(
    old_engine: Engine, empty_database_url: str, revision: str
) -> None:
    before = _rows(old_engine)
    assert all(before.values()), "a table has no row"
    migrate.upgrade(empty_database_url)
    assert migrate.current_revision(old_engine) == migrate.head_revision()
    assert _rows(old_engine, like=before) == before
    with Session(old_engine) as session:
        _assert_every_row_reads(session, before)
        _assert_the_job_is_whole(session)
        _assert_lookups_are_answered(session)
        assert len(lookup_traffic.most_missed(session, limit=9)) == len(before.get("lookup_misses", ()))
        assert len(signatures.list_keys(session)) == len(before.get("signing_keys", ()))
        (worker,) = workers.list_workers(session, include_left=True)
        assert (worker.name, worker.facts, worker.target_key) == ("old/cpu", {"model": "old"}, "k" * 64)


@pytest.mark.parametrize("revision", [REVISIONS[0], REVISIONS[len(REVISIONS) // 2], REVISIONS[-2]])
def test_an_old_job_goes_on_from_where_it_was(old_engine: Engine, empty_database_url: str) -> None:
    migrate.upgrade(empty_database_url)
    with transaction(old_engine) as session:
        assert searches.free_searches(session, limit=10) == [1]
        lease = searches.claim_search(session, 1, owner="new", secs=60)
        assert lease is not None
        assert lease.epoch == 5
        (open_task,) = progress.open_tasks(session, [1])
        assert open_task.budget_left == 64 - TRIALS
        assert progress.charge(session, open_task, 8)
    with transaction(old_engine) as session:
        under_way = dispatched_trials(session)
        assert len(under_way) == TRIALS // 10
        assert all(trial.overdue for trial in under_way)
        measured = Measured(
            trial_id=under_way[0].id,
            attempt=under_way[0].attempt,
            worker_id="worker-old",
            outcome=Outcome.OK,
            run_secs=[2e-3],
            latency_secs=2e-3,
            incumbent_run_secs=None,
            error=None,
            stage_secs={},
            device_class="old 2c",
            tvm_version=TVM_VERSION,
        )
        reports = Reports.open(session, [measured.trial_id])
        assert reports.measured(measured)
        assert not reports.measured(measured)
        reports.write()
        assert attempts.ring_again(session, under_way[1].id, attempt=under_way[1].attempt)


@pytest.mark.parametrize("revision", REVISIONS[:1])
def test_an_upgrade_may_run_twice(old_engine: Engine, empty_database_url: str) -> None:
    migrate.upgrade(empty_database_url)
    once = _rows(old_engine)
    migrate.upgrade(empty_database_url)
    assert _rows(old_engine) == once


def test_every_revision_is_upgraded_from() -> None:
    assert REVISIONS[:4] == ["0002", "0003", "0004", "0006"]
    assert REVISIONS[-1] == migrate.head_revision()


def _rows(engine: Engine, *, like: Rows | None = None) -> Rows:
    """All rows by table, in the order of their keys; with `like` only its tables and columns."""
    tables = MetaData()
    tables.reflect(engine)
    found: Rows = {}
    with engine.connect() as connection:
        for name, table in tables.tables.items():
            if name == "alembic_version" or (like is not None and name not in like):
                continue
            columns = table.columns.keys() if like is None else like[name][0].keys()
            statement = select(*(table.c[column] for column in columns)).order_by(*table.primary_key)
            found[name] = [dict(row) for row in connection.execute(statement).mappings()]
    return found


def _assert_every_row_reads(session: Session, before: Rows) -> None:
    """By today's tables; one that is new has no row."""
    for mapper in Row.registry.mappers:
        name = mapper.class_.__tablename__
        assert len(session.scalars(select(mapper.class_)).all()) == len(before.get(name, ())), name


def _assert_the_job_is_whole(session: Session) -> None:
    job = jobs.read_job(session, JOB)
    assert job is not None
    assert (job.owner, job.revision, job.max_trials) == ("alice", 7, 64)
    counts = Counter[TrialState]()
    for count in trials_view.counts_of_jobs(session, [JOB]):
        counts[count.state] += count.count
    assert counts == {
        TrialState.QUEUED: TRIALS // 10,
        TrialState.DISPATCHED: TRIALS // 10,
        TrialState.FAILED: TRIALS // 10,
        TrialState.DONE: TRIALS * 7 // 10,
    }
    assert len(trials_view.list_trials(session, JOB, limit=100, after_id=None)) == ALL_TRIALS
    assert len(curves.points(session, 1)) == TRIALS * 8 // 10
    falling = [number + 1 for number in range(TRIALS // 2) if number % 10 > 2]
    assert [each.trial_id for each in curves.improvements(session, [1])] == falling
    (task,) = tasks.tasks_of_jobs(session, [JOB])
    assert (task.record_id, task.stopped, task.trials_reserved) == (1, None, TRIALS)


def _assert_lookups_are_answered(session: Session) -> None:
    (record,) = records.current_records(
        session, target_key="k" * 64, tvm_version=TVM_VERSION, shashes=[SHASH]
    )
    assert (record.module, record.trace, record.run_secs) == (MODULE, TRACE, [1e-3, 1.1e-3])
    (near,) = records.near_records(session, [SHASH])
    assert (near.record_id, near.target_key) == (1, "k" * 64)
    (found,) = records_table.page_of_records(session, "ADD", limit=2, offset=0)
    assert found.operations == "add"
    search = searches.read_searches(session, [1])[1]
    incumbent = publishing.incumbent(session, search)
    assert incumbent is not None
    assert (incumbent.record_id, record.trial_id) == (1, BEST)
    (confirmation,) = publishing.confirmations(session, 1)
    assert (confirmation.trial_id, confirmation.published) == (ALL_TRIALS, True)
