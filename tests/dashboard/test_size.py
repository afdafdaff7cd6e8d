"""What pages read of long searches they read from indexes alone: rows hold traces and features."""

from sqlalchemy import event, text

from db.curves import improvements
from db.failures import count_failures, last_errors, newest_failure_ids
from db.session import reading
from db.trials_view import counts_of_jobs
from services.dashboard.causes import Causes
from tests.api.rows import add_trials


def plans(engine, read) -> list[str]:
    """How SQLite answers the statements of `read`."""
    asked: list[tuple] = []

    def note(_connection, _cursor, statement, parameters, _context, _many):
        asked.append((statement, parameters))

    event.listen(engine, "before_cursor_execute", note)
    with reading(engine) as session:
        read(session)
    event.remove(engine, "before_cursor_execute", note)
    found = []
    with engine.connect() as connection:
        for statement, parameters in asked:
            if statement.lstrip().startswith(("SELECT", "WITH")):
                rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
                found += [row[3] for row in rows]
    return [step for step in found if "trials" in step]


def test_counts_curves_and_failures_are_read_from_indexes_that_cover_them(farm, engine):
    job_id = farm.job()
    add_trials(engine, job_id, outcome="ok", latency_secs=1.0, count=50)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM trials")).scalar_one() == 50
    counts = plans(engine, lambda session: counts_of_jobs(session, [job_id]))
    assert counts
    assert all("COVERING INDEX ix_trials_count" in step for step in counts)
    failures = plans(engine, lambda session: count_failures(session, job_id=None))
    assert failures
    assert all("COVERING INDEX ix_trials_outcome" in step for step in failures)
    ids = plans(engine, lambda session: newest_failure_ids(session, job_id=None, limit=5000))
    assert all("COVERING INDEX ix_trials_outcome" in step for step in ids)
    newest = plans(engine, lambda session: last_errors(session, job_id))
    assert any("COVERING INDEX ix_trials_count" in step for step in newest)
    curve = plans(engine, lambda session: improvements(session, [1]))
    assert curve
    assert all("COVERING INDEX ix_trials_improved" in step for step in curve)


def test_the_words_of_a_failure_are_read_once(farm, engine):
    job_id = farm.job()
    old = add_trials(engine, job_id, outcome="build_error", error="needs 7 bytes", count=3)
    causes = Causes(kept=4)

    def ask(wanted: list[int]) -> list[str]:
        with reading(engine) as session:
            return [cause.message for cause in causes.of(session, wanted)]

    assert ask(old) == ["needs ⟨n⟩ bytes"] * 3
    with engine.begin() as connection:
        connection.execute(text("UPDATE trials SET error = 'gone'"))
    new = add_trials(engine, job_id, outcome="build_error", error="no", count=2, attempt=1)
    assert ask([*reversed(new), *reversed(old)]) == ["no", "no", *["needs ⟨n⟩ bytes"] * 3]
    # Four are kept: the one that was known first has gone.
    assert ask(old) == ["gone", *["needs ⟨n⟩ bytes"] * 2]
    assert ask([99]) == []
