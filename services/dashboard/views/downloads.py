"""The tables of jobs, tasks and trials as files. Others stand with their pages."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from sqlalchemy import Engine

from db.curves import improvements
from db.failures import newest_failures
from db.jobs_table import page_of_jobs
from db.session import reading
from db.states import JobState, Outcome
from db.tasks import read_task, tasks_of_jobs
from db.trials_view import Trial, list_trials, read_trial
from services.api.deps import EngineDep
from services.api.errors import NotFoundError
from services.api.ids import JobId, RowId
from services.api.views import job_summaries, job_view
from services.dashboard.history import weighted_history
from services.dashboard.messages import normalised
from services.dashboard.ranks import rank_by_round
from services.dashboard.remembered import KeptDep
from services.dashboard.spread import histogram
from services.dashboard.tables import Form, table
from services.dashboard.viewer import JobsViewer
from services.dashboard.views.jobs import wanted_jobs
from services.dashboard.views.task_numbers import (
    decisions_of_task,
    measured_secs,
    points_of_task,
)

data = APIRouter(prefix="/download", include_in_schema=False)
BATCH = 500
_MAX_FAILURES = 100_000


@data.get("/jobs.{form}")
def jobs_table(
    form: Form,
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
        # A job that comes meanwhile moves the others on.
        told: set[str] = set()
        while True:
            with reading(engine) as session:
                jobs = page_of_jobs(session, wanted, limit=BATCH, offset=offset)
                summaries = job_summaries(session, [job for job in jobs if job.id not in told])
            told.update(job.id for job in jobs)
            for job in summaries:
                yield job.model_dump() | {"target": job.target.name} | job.trials.model_dump()
            if len(jobs) < BATCH:
                return
            offset += BATCH

    columns = (
        *("id", "name", "owner", "state", "target", "priority", "strategy", "seed", "max_trials"),
        *("submitted", "queued", "dispatched", "done", "failed", "cancelled", "weighted_latency_secs"),
        *("untuned_weighted_latency_secs", "speedup", "created_at", "started_at", "finished_at", "error"),
    )
    return table("jobs", form, columns, rows())


@data.get("/jobs/{job_id}/tasks.{form}")
def tasks_table(form: Form, job_id: JobId, who: JobsViewer, engine: EngineDep) -> Response:
    del who
    with reading(engine) as session:
        job = job_view(session, job_id)
    if job is None:
        raise NotFoundError("job_not_found", f"there is no job {job_id}")
    columns = (
        *("id", "name", "workload", "flops", "weight", "state", "done", "failed", "best_latency_secs"),
        *("untuned_latency_secs", "speedup", "gflops", "record_id", "exhausted", "stopped", "error"),
    )
    rows = (task.model_dump() | task.trials.model_dump() for task in job.tasks)
    return table("tasks", form, columns, rows)


@data.get("/jobs/{job_id}/latency.{form}")
def latency_table(form: Form, job_id: JobId, who: JobsViewer, engine: EngineDep) -> Response:
    """The steps of the job's weighted latency, as its chart draws them."""
    del who
    with reading(engine) as session:
        tasks = tasks_of_jobs(session, [job_id])
        steps = weighted_history(tasks, improvements(session, {task.search_id for task in tasks}))
    rows = ({"trial_id": step.trial_id, "at": step.at, "latency_secs": step.latency_secs} for step in steps)
    return table("latency", form, ("trial_id", "at", "latency_secs"), rows)


@data.get("/jobs/{job_id}/seconds.{form}")
def seconds_table(form: Form, job_id: JobId, who: JobsViewer, engine: EngineDep) -> Response:
    del who
    with reading(engine) as session:
        job = job_view(session, job_id)
    if job is None:
        raise NotFoundError("job_not_found", f"there is no job {job_id}")
    rows = ({"stage": name, "secs": secs} for name, secs in job.stage_secs.items())
    return table("seconds", form, ("stage", "secs"), rows)


@data.get("/tasks/{task_id}/trials.{form}")
def trials_table(form: Form, task_id: RowId, who: JobsViewer, engine: EngineDep) -> Response:
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
    return table("trials", form, columns, _trials(engine, task.job_id, task_id, columns))


@data.get("/tasks/{task_id}/decisions.{form}")
def decisions_table(
    form: Form, task_id: RowId, who: JobsViewer, engine: EngineDep, kept: KeptDep
) -> Response:
    """A row for each trial of the explorer, a column for each of its decisions."""
    del who
    found = decisions_of_task(engine, task_id, kept)
    names = [f"{axis['name']} {axis['part']}".strip() for axis in found["axes"]]
    columns = ["trial", "latency_secs", *names]
    values = [found["trials"], found["latencies_secs"], *(axis["values"] for axis in found["axes"])]
    rows = (dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True))
    return table("decisions", form, columns, rows)


@data.get("/tasks/{task_id}/predictions.{form}")
def predictions_table(
    form: Form, task_id: RowId, who: JobsViewer, engine: EngineDep, kept: KeptDep
) -> Response:
    """What the cost model said of each trial before it was measured."""
    del who
    rows: Iterator[Mapping[str, Any]] = (
        {"trial": each.trial_id, "round": each.round}
        | {"predicted_score": each.predicted_score, "latency_secs": each.latency_secs}
        for each in points_of_task(engine, task_id, kept)
        if each.outcome is Outcome.OK and each.predicted_score is not None
    )
    return table("predictions", form, ("trial", "round", "predicted_score", "latency_secs"), rows)


@data.get("/tasks/{task_id}/ranks.{form}")
def ranks_table(form: Form, task_id: RowId, who: JobsViewer, engine: EngineDep, kept: KeptDep) -> Response:
    del who
    found = rank_by_round(points_of_task(engine, task_id, kept))
    return table("ranks", form, ("round", "rank"), found)


@data.get("/tasks/{task_id}/spread.{form}")
def spread_table(form: Form, task_id: RowId, who: JobsViewer, engine: EngineDep, kept: KeptDep) -> Response:
    del who
    found = histogram(measured_secs(points_of_task(engine, task_id, kept)))
    return table("spread", form, ("from_secs", "to_secs", "trials"), found)


@data.get("/trials/{trial_id}/repeats.{form}")
def repeats_table(form: Form, trial_id: RowId, who: JobsViewer, engine: EngineDep) -> Response:
    del who
    rows = ({"repeat": n, "secs": secs} for n, secs in enumerate(_trial(engine, trial_id).run_secs or [], 1))
    return table("repeats", form, ("repeat", "secs"), rows)


@data.get("/trials/{trial_id}/seconds.{form}")
def trial_seconds_table(form: Form, trial_id: RowId, who: JobsViewer, engine: EngineDep) -> Response:
    del who
    found = _trial(engine, trial_id).stage_secs or {}
    return table("seconds", form, ("stage", "secs"), ({"stage": n, "secs": s} for n, s in found.items()))


@data.get("/failures.{form}")
def failures_table(
    form: Form,
    who: JobsViewer,
    engine: EngineDep,
    job: Annotated[str | None, Query(max_length=60, pattern=r"^[^\x00]*$")] = None,
) -> Response:
    """One row for each failure, newest first, with the message that groups it."""
    del who
    with reading(engine) as session:
        failures = newest_failures(session, job_id=job or None, limit=_MAX_FAILURES)
    columns = ("trial_id", "job_id", "task_id", "task_name", "outcome", "group", "worker_id", "error")
    rows = (
        {name: getattr(each, name) for name in columns if name != "group"} | {"group": normalised(each.error)}
        for each in failures
    )
    return table("failures", form, columns, rows)


def _trial(engine: Engine, trial_id: int) -> Trial:
    with reading(engine) as session:
        found = read_trial(session, trial_id)
    if found is None:
        raise NotFoundError("trial_not_found", f"there is no trial {trial_id}")
    return found[0]


def _trials(engine: Engine, job_id: str, task_id: int, columns: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    after: int | None = None
    while True:
        with reading(engine) as session:
            trials = list_trials(session, job_id, limit=BATCH, after_id=after, task_id=task_id)
        yield from ({name: getattr(trial, name) for name in columns} for trial in trials)
        if len(trials) < BATCH:
            return
        after = trials[-1].id
