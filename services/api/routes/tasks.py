"""/v1/jobs/{id}/tasks, /v1/tasks, trials: what became of the parts of a job."""

import dataclasses
import json
from typing import Annotated

from fastapi import APIRouter, Query

from db.jobs import read_job
from db.records import read_record
from db.session import reading
from db.states import Outcome, TrialState
from db.tasks import read_task, tasks_of_jobs
from db.trials_view import Trial, list_trials, read_trial
from services.api.auth import JobsReader, RecordsReader
from services.api.deps import EngineDep, IntakeDep
from services.api.errors import NotFoundError
from services.api.ids import JobId, RowId
from services.api.paging import PageSize, PageToken, id_place, id_token
from services.api.record_views import record_view
from services.api.schemas import MAX_BIGINT, TaskList, TaskView, TrialDetail, TrialPage, TrialView
from services.api.schemas_records import TaskRecord
from services.api.views import task_views

router = APIRouter(prefix="/v1", tags=["tasks"])


@router.get("/jobs/{job_id}/tasks")
def list_tasks(job_id: JobId, token: JobsReader, engine: EngineDep) -> TaskList:
    """The job's tasks, in the order of submission."""
    del token
    with reading(engine) as session:
        tasks = tasks_of_jobs(session, [job_id])
        if not tasks and read_job(session, job_id) is None:
            raise NotFoundError("job_not_found", f"there is no job {job_id}")
        return TaskList(tasks=task_views(session, tasks))


@router.get("/jobs/{job_id}/trials")
def list_job_trials(
    job_id: JobId,
    token: JobsReader,
    engine: EngineDep,
    task: Annotated[int | None, Query(ge=1, le=MAX_BIGINT)] = None,
    outcome: Annotated[list[Outcome] | None, Query()] = None,
    state: Annotated[list[TrialState] | None, Query()] = None,
    page_size: PageSize = 100,
    page_token: PageToken = None,
) -> TrialPage:
    """The job's trials, newest first."""
    del token
    with reading(engine) as session:
        if read_job(session, job_id) is None:
            raise NotFoundError("job_not_found", f"there is no job {job_id}")
        trials = list_trials(
            session,
            job_id,
            limit=page_size + 1,
            after_id=id_place(page_token),
            task_id=task,
            outcomes=outcome or (),
            states=state or (),
        )
    more, trials = len(trials) > page_size, trials[:page_size]
    return TrialPage(
        trials=[_view(trial) for trial in trials],
        next_page_token=id_token(trials[-1].id) if more else None,
    )


@router.get("/trials/{trial_id}")
def show_trial(trial_id: RowId, token: JobsReader, engine: EngineDep) -> TrialDetail:
    """A trial with its trace, where retention has kept it."""
    del token
    with reading(engine) as session:
        found = read_trial(session, trial_id)
    if found is None:
        raise NotFoundError("trial_not_found", f"there is no trial {trial_id}")
    trial, trace = found
    return TrialDetail(**dict(_view(trial)), trace=None if trace is None else json.loads(trace))


@router.get("/tasks/{task_id}")
def show_task(task_id: RowId, token: JobsReader, engine: EngineDep) -> TaskView:
    del token
    with reading(engine) as session:
        task = read_task(session, task_id)
        if task is None:
            raise NotFoundError("task_not_found", f"there is no task {task_id}")
        return task_views(session, [task])[0]


@router.get("/tasks/{task_id}/record")
def show_task_record(
    task_id: RowId, token: RecordsReader, engine: EngineDep, intake: IntakeDep
) -> TaskRecord:
    """The current record of the task's workload, its trace as JSON and as Python."""
    del token
    with reading(engine) as session:
        task = read_task(session, task_id)
        if task is None:
            raise NotFoundError("task_not_found", f"there is no task {task_id}")
        record = None if task.record_id is None else read_record(session, task.record_id)
    if record is None:
        raise NotFoundError("no_record", f"task {task_id} ({task.name}) has no published record yet")
    with intake.open() as child:
        texts = child.python(module=record.module, trace=record.trace)
    return TaskRecord(record=record_view(record), trace=json.loads(record.trace), **texts)


def _view(trial: Trial) -> TrialView:
    return TrialView(**dataclasses.asdict(trial))
