"""Tables as CSV, whole, in base units: seconds, not microseconds. A chart's numbers are its own JSON."""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from fastapi.responses import StreamingResponse
from sqlalchemy import Engine

from db.jobs_table import page_of_jobs
from db.records_table import page_of_records
from db.session import reading
from db.states import JobState
from db.tasks import read_task
from db.trials_view import list_trials
from services.api.deps import EngineDep
from services.api.errors import NotFoundError
from services.api.ids import JobId, RowId
from services.api.views import job_summaries, job_view
from services.dashboard.viewer import JobsViewer, RecordsViewer
from services.dashboard.views.jobs import wanted_jobs

data = APIRouter(prefix="/download", include_in_schema=False)
_BATCH = 500
#: What a spreadsheet takes for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@data.get("/jobs.csv")
def jobs_csv(
    who: JobsViewer,
    engine: EngineDep,
    state: Annotated[list[JobState] | None, Query()] = None,
    q: Annotated[str, Query(max_length=120, pattern=r"^[^\x00]*$")] = "",
    sort: Annotated[str, Query(pattern=r"^-?[a-z]{1,20}$")] = "-created",
) -> Response:
    del who
    wanted = wanted_jobs(state or [], q, sort)

    def rows() -> Iterator[Mapping[str, Any]]:
        offset = 0
        while True:
            with reading(engine) as session:
                jobs = page_of_jobs(session, wanted, limit=_BATCH, offset=offset)
                summaries = job_summaries(session, jobs)
            for job in summaries:
                yield job.model_dump() | {"target": job.target.name} | job.trials.model_dump()
            if len(jobs) < _BATCH:
                return
            offset += _BATCH

    columns = (
        *("id", "name", "owner", "state", "target", "priority", "strategy", "seed", "max_trials"),
        *("submitted", "queued", "dispatched", "done", "failed", "cancelled", "weighted_latency_secs"),
        *("untuned_weighted_latency_secs", "speedup", "created_at", "started_at", "finished_at", "error"),
    )
    return _csv("jobs.csv", columns, rows())


@data.get("/jobs/{job_id}/tasks.csv")
def tasks_csv(job_id: JobId, who: JobsViewer, engine: EngineDep) -> Response:
    del who
    with reading(engine) as session:
        job = job_view(session, job_id)
    if job is None:
        raise NotFoundError("job_not_found", f"there is no job {job_id}")
    columns = (
        *("id", "name", "workload", "flops", "weight", "state", "done", "failed", "best_latency_secs"),
        *("untuned_latency_secs", "speedup", "gflops", "record_id", "exhausted", "error"),
    )
    rows = (task.model_dump() | task.trials.model_dump() for task in job.tasks)
    return _csv("tasks.csv", columns, rows)


@data.get("/tasks/{task_id}/trials.csv")
def trials_csv(task_id: RowId, who: JobsViewer, engine: EngineDep) -> Response:
    """Every trial that the task's job paid for, failures included; newest first."""
    del who
    with reading(engine) as session:
        task = read_task(session, task_id)
    if task is None:
        raise NotFoundError("task_not_found", f"there is no task {task_id}")
    columns = (
        *("id", "purpose", "state", "round", "outcome", "latency_secs", "run_secs", "predicted_score"),
        *("attempt", "program_hash", "trace_hash", "worker_id", "device_class", "tvm_version"),
        *("created_at", "done_at", "error"),
    )
    return _csv("trials.csv", columns, _trials(engine, task.job_id, task_id, columns))


@data.get("/records.csv")
def records_csv(
    who: RecordsViewer,
    engine: EngineDep,
    q: Annotated[str, Query(max_length=120, pattern=r"^[^\x00]*$")] = "",
) -> Response:
    del who
    columns = (
        *("id", "state", "name", "shash", "args", "target", "tvm_version", "latency_secs", "flops"),
        *("device_class", "trial_id", "created_at"),
    )

    def rows() -> Iterator[Mapping[str, Any]]:
        offset = 0
        while True:
            with reading(engine) as session:
                lines = page_of_records(session, q.strip(), limit=_BATCH, offset=offset)
            yield from ({name: getattr(line, name) for name in columns} for line in lines)
            if len(lines) < _BATCH:
                return
            offset += _BATCH

    return _csv("records.csv", columns, rows())


def _trials(engine: Engine, job_id: str, task_id: int, columns: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    after: int | None = None
    while True:
        with reading(engine) as session:
            trials = list_trials(session, job_id, limit=_BATCH, after_id=after, task_id=task_id)
        yield from ({name: getattr(trial, name) for name in columns} for trial in trials)
        if len(trials) < _BATCH:
            return
        after = trials[-1].id


def _csv(name: str, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> Response:
    def lines() -> Iterator[str]:
        yield ",".join(columns) + "\r\n"
        for row in rows:
            buffer = io.StringIO()
            csv.writer(buffer).writerow([_cell(row[column]) for column in columns])
            yield buffer.getvalue()

    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
    return StreamingResponse(lines(), media_type="text/csv; charset=utf-8", headers=headers)


def _cell(value: object) -> object:
    """A text that a spreadsheet would run as a formula gets an apostrophe before it."""
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return value
