"""Retention: losers of old jobs lose trace and error text, and nothing else changes."""

from typing import Any

import pytest
from sqlalchemy import Engine, func, select, update

from db.clock import utc_now
from db.farm_tables import WorkerRow
from db.session import reading, transaction
from db.states import JobState, Outcome, Purpose, TaskState, TrialState, WorkerState
from db.tables import JobRow, SearchRow, TaskRow, TrialRow
from services.server import cli, retention
from services.tuning import settle
from tests.tuning.rows import add_job, add_search, add_target, add_trials, add_worker, ok, read

DAY_SECS = 86_400.0
FAILED = {
    "state": TrialState.DONE,
    "outcome": Outcome.BUILD_ERROR,
    "error": "LLVM said no",
    "features_z": b"f",
}


@pytest.fixture
def search_id(engine: Engine) -> int:
    """A search of an ended job: 30 trials measured ok, 10 failed, 2 cancelled, and the baseline."""
    search_id = add_search(engine, add_target(engine))
    [task_id] = add_job(engine, [search_id])
    for number in range(30):
        add_trials(engine, search_id, task_id, 1, **ok(1e-3 + number * 1e-5, features_z=b"f"))
    add_trials(engine, search_id, task_id, 10, **FAILED)
    add_trials(engine, search_id, task_id, 2, state=TrialState.CANCELLED)
    [baseline] = add_trials(engine, search_id, task_id, 1, **ok(5e-3))
    with transaction(engine) as session:
        session.execute(update(TrialRow).where(TrialRow.id == baseline).values(purpose=Purpose.BASELINE))
        session.execute(update(SearchRow).values(best_trial_id=1))
    end_job(engine, days_ago=40)
    return search_id


def end_job(engine: Engine, *, days_ago: float, job_id: str = "job-1") -> None:
    with transaction(engine) as session:
        ended = {"state": JobState.SUCCEEDED, "finished_at": utc_now(offset_secs=-days_ago * DAY_SECS)}
        session.execute(update(JobRow).where(JobRow.id == job_id).values(ended))
        tasks = update(TaskRow).where(TaskRow.job_id == job_id)
        session.execute(tasks.values(state=TaskState.SUCCEEDED, finished_at=utc_now()))


def thin(engine: Engine, *, days: float = 30, keep: int = 16) -> int:
    url = engine.url.render_as_string(hide_password=False)
    assert retention.thin_all(url, days=days, keep=keep) == 0
    return len(read(engine, TrialRow.id, TrialRow.trace_z.is_(None)))


def whole(engine: Engine) -> list[Any]:
    """All of the trials' rows that must never change."""
    columns = (
        TrialRow.id, TrialRow.state, TrialRow.purpose, TrialRow.outcome, TrialRow.latency_secs,
        TrialRow.run_secs, TrialRow.trace_hash, TrialRow.program_hash, TrialRow.features_z,
        TrialRow.predicted_score, TrialRow.round, TrialRow.attempt, TrialRow.started_attempts,
    )  # fmt: skip
    with reading(engine) as session:
        return [tuple(row) for row in session.execute(select(*columns).order_by(TrialRow.id))]


def test_losers_lose_trace_and_error_and_nothing_else_changes(engine, search_id, capsys):
    before = whole(engine)
    assert thin(engine) == 14 + 10
    assert capsys.readouterr().out == "24 trials thinned, 0 workers forgotten\n"
    assert whole(engine) == before
    assert not read(engine, TrialRow.error, TrialRow.error.is_not(None))
    kept = read(engine, TrialRow.latency_secs, TrialRow.trace_z.is_not(None), TrialRow.outcome == Outcome.OK)
    assert len(kept) == 16 + 1
    assert sorted(kept)[:16] == pytest.approx([1e-3 + number * 1e-5 for number in range(16)])


def test_cancelled_trials_and_the_baseline_stay_whole(engine, search_id):
    thin(engine)
    cancelled = read(engine, TrialRow.trace_z, TrialRow.state == TrialState.CANCELLED)
    baseline = read(engine, TrialRow.trace_z, TrialRow.purpose == Purpose.BASELINE)
    assert len(cancelled) == 2
    assert len(baseline) == 1
    assert all([*cancelled, *baseline])


def test_it_may_be_repeated_and_in_small_steps(engine, search_id, monkeypatch, capsys):
    monkeypatch.setattr(retention, "_BATCH", 5)
    monkeypatch.setattr(retention, "_SEARCHES", 1)
    assert thin(engine) == 24
    assert thin(engine) == 24
    assert (
        capsys.readouterr().out
        == "24 trials thinned, 0 workers forgotten\n0 trials thinned, 0 workers forgotten\n"
    )


def test_a_job_that_ended_lately_keeps_everything(engine, search_id):
    end_job(engine, days_ago=29)
    assert thin(engine) == 0
    assert thin(engine, days=28) == 24


def test_a_search_that_an_open_job_uses_keeps_everything(engine, search_id):
    add_job(engine, [search_id], job_id="job-2", state="running")
    assert thin(engine) == 0
    end_job(engine, days_ago=1, job_id="job-2")
    assert thin(engine) == 24


def test_a_search_that_found_nothing_keeps_its_errors(engine, search_id):
    with transaction(engine) as session:
        session.execute(update(SearchRow).values(best_trial_id=None))
    assert thin(engine) == 0
    with reading(engine) as session:
        assert session.scalar(select(func.count()).where(TrialRow.error.is_not(None))) == 10


def test_workers_that_left_long_ago_are_forgotten_but_the_last_of_each_kind(engine, monkeypatch, capsys):
    monkeypatch.setattr(retention, "_BATCH", 2)
    target_id = add_target(engine)
    for worker_id, state, days_ago, device_class in (
        *((f"gone-{number}", WorkerState.LEFT, 31 + number, "cpu") for number in range(5)),
        ("left lately", WorkerState.LEFT, 29, "cpu"),
        ("never said so", WorkerState.RUNNING, 400, "cpu"),
        ("the last of its kind", WorkerState.LEFT, 400, "gpu"),
        ("its predecessor", WorkerState.LEFT, 401, "gpu"),
    ):
        heartbeat_at = utc_now(offset_secs=-days_ago * DAY_SECS)
        values = {"state": state, "heartbeat_at": heartbeat_at, "device_class": device_class}
        add_worker(engine, target_id, worker_id=worker_id, **values)
    thin(engine)
    assert capsys.readouterr().out == "0 trials thinned, 6 workers forgotten\n"
    assert set(read(engine, WorkerRow.id)) == {"left lately", "never said so", "the last of its kind"}


@pytest.mark.parametrize("words", [["--days", "-1"], ["--keep", "63"], ["--keep", "many"], ["--days", "nan"]])
def test_the_command_refuses_what_makes_no_sense(words, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["db", "thin", *words])
    assert ended.value.code == 2
    assert words[0] in capsys.readouterr().err


def test_what_may_become_a_record_is_never_thinned():
    assert cli._MIN_KEEP >= settle._CONTENDERS


def test_the_command_thins_the_database_of_its_setting(engine, search_id, monkeypatch, capsys):
    monkeypatch.setenv("TILEFARM_DATABASE_URL", engine.url.render_as_string(hide_password=False))
    assert cli.main(["db", "thin", "--days", "30", "--keep", "64"]) == 0
    assert capsys.readouterr().out == "10 trials thinned, 0 workers forgotten\n"
