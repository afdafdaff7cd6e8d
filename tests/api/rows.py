"""Rows that the tuner service would have written: trials and published records of a submitted job."""

import json
import zlib

from sqlalchemy import func, select, update

from db.clock import utc_now
from db.session import transaction
from db.tables import JobRow, RecordRow, SearchRow, TaskRow, TrialRow

EMPTY_TRACE = "[[],[]]"


def add_trials(
    engine, job_id, *, state="done", outcome=None, count=1, latency_secs=None, **values
) -> list[int]:
    with transaction(engine) as session:
        task = session.scalars(select(TaskRow).where(TaskRow.job_id == job_id)).first()
        rows = [
            TrialRow(
                search_id=task.search_id,
                job_id=job_id,
                task_id=task.id,
                state=state,
                outcome=outcome,
                trace_hash=f"{state}-{outcome}-{number}-{len(values)}-{values.get('attempt', 0)}",
                trace_z=zlib.compress(EMPTY_TRACE.encode()),
                latency_secs=latency_secs,
                run_secs=None if latency_secs is None else [latency_secs],
                done_at=utc_now() if state == "done" else None,
                **values,
            )
            for number in range(count)
        ]
        if outcome == "ok" and latency_secs is not None and values.get("purpose", "search") == "search":
            best = session.scalars(
                select(func.min(TrialRow.latency_secs)).where(
                    TrialRow.search_id == task.search_id,
                    TrialRow.purpose == "search",
                    TrialRow.outcome == "ok",
                )
            ).one()
            rows[0].improved = best is None or latency_secs < best
        session.add_all(rows)
        session.flush()
        return [row.id for row in rows]


def publish(engine, job_id, *, latency_secs=1e-4, state="published", trace=None) -> int:
    """A record of the job's first task."""
    with transaction(engine) as session:
        task = session.scalars(select(TaskRow).where(TaskRow.job_id == job_id)).first()
        search = session.get_one(SearchRow, task.search_id)
        text = EMPTY_TRACE if trace is None else json.dumps(trace)
        record = RecordRow(
            workload_id=search.workload_id,
            target_id=search.target_id,
            tvm_version=search.tvm_version,
            state=state,
            trace_z=zlib.compress(text.encode()),
            trace_hash="0" * 64,
            run_secs=[latency_secs],
            latency_secs=latency_secs,
            policy=search.policy,
            device_class="test-cpu/2",
        )
        session.add(record)
        session.flush()
        return record.id


def set_job(engine, job_id, **values) -> None:
    """Change a job as the tuner service does, with its revision."""
    with transaction(engine) as session:
        session.execute(
            update(JobRow).where(JobRow.id == job_id).values(revision=JobRow.revision + 1, **values)
        )


def set_search(engine, **values) -> None:
    with transaction(engine) as session:
        session.execute(update(SearchRow).values(**values))
