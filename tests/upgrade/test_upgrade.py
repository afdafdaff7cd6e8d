"""A farm that was filled by an older release goes on after `db upgrade`, with every row that it had."""

from collections import Counter

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from db import attempts, curves, jobs, migrate, progress, records, records_table, searches, tasks, trials_view
from db.dispatched import dispatched_trials
from db.reports import Measured, Reports
from db.session import transaction
from db.states import Outcome, TrialState
from tests.upgrade.rows_r0002 import JOB, MODULE, SHASH, TRACE, TRIALS, filled_at_0002


def upgraded(url: str) -> Engine:
    engine = filled_at_0002(url)
    assert migrate.current_revision(engine) == "0002"
    migrate.upgrade(url)
    assert migrate.current_revision(engine) == migrate.head_revision()
    return engine


def test_jobs_trials_and_records_are_what_they_were(empty_database_url: str) -> None:
    engine = upgraded(empty_database_url)
    with Session(engine) as session:
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
        (task,) = tasks.tasks_of_jobs(session, [JOB])
        assert task.record_id == 1
        (record,) = records.current_records(
            session, target_key="k" * 64, tvm_version="0.27.0.post1", shashes=[SHASH]
        )
        assert (record.module, record.trace, record.run_secs) == (MODULE, TRACE, [1e-3, 1.1e-3])
        assert len(curves.points(session, 1)) == TRIALS * 8 // 10
        (found,) = records_table.page_of_records(session, "ADD", limit=2, offset=0)
        assert found.operations == "add"
        falling = [number for number in range(TRIALS // 2) if number % 10 > 2]
        improved = curves.improvements(session, [1])
        assert [each.trial_id for each in improved] == [number + 1 for number in falling]
    engine.dispose()


def test_an_old_job_goes_on_from_where_it_was(empty_database_url: str) -> None:
    engine = upgraded(empty_database_url)
    with transaction(engine) as session:
        assert searches.free_searches(session, limit=10) == [1]
        lease = searches.claim_search(session, 1, owner="new", secs=60)
        assert lease is not None
        assert lease.epoch == 5
        (open_task,) = progress.open_tasks(session, [1])
        assert open_task.budget_left == 64 - TRIALS
        assert progress.charge(session, open_task, 8)
    with transaction(engine) as session:
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
            tvm_version="0.27.0.post1",
        )
        reports = Reports.open(session, [measured.trial_id])
        assert reports.measured(measured)
        assert not reports.measured(measured)
        reports.write()
        assert attempts.ring_again(session, under_way[1].id, attempt=under_way[1].attempt)
    engine.dispose()


def test_an_upgrade_may_run_twice(empty_database_url: str) -> None:
    engine = upgraded(empty_database_url)
    migrate.upgrade(empty_database_url)
    with Session(engine) as session:
        assert len(trials_view.list_trials(session, JOB, limit=100, after_id=None)) == TRIALS
    engine.dispose()
