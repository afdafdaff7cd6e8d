"""/v1/jobs: submit, list, show, change, cancel, pause, resume, continue, follow."""

import hashlib
from typing import Annotated

import structlog
from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import StreamingResponse
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from db.jobs import Job, Place, ask_state, change_job, list_jobs, read_job
from db.session import reading, transaction
from db.states import DesiredState, JobState
from services.api.auth import JobsReader, JobsWriter, require_owner
from services.api.body import SHA256_KEY
from services.api.continuing import continue_from
from services.api.deps import EngineDep, EventsDep, IntakeDep, SettingsDep
from services.api.errors import ConflictError, NotFoundError
from services.api.estimate import estimated_secs
from services.api.ids import JobId
from services.api.paging import PageSize, PageToken, job_place, job_token
from services.api.schemas import ChangeJob, ContinueJob, JobPage, JobView, SubmitJob, SubmittedJob
from services.api.sender import Sender
from services.api.submission import require_budget, submit
from services.api.views import job_summaries, job_view

_log = structlog.get_logger(__name__)
router = APIRouter(prefix="/v1/jobs", tags=["jobs"])
IdempotencyKey = Annotated[
    str | None, Header(min_length=1, max_length=200, pattern=r"^[\x21-\x7e]+$", alias="Idempotency-Key")
]


@router.post("", status_code=201)
def submit_job(
    body: SubmitJob,
    request: Request,
    response: Response,
    token: JobsWriter,
    engine: EngineDep,
    intake: IntakeDep,
    settings: SettingsDep,
    idempotency_key: IdempotencyKey = None,
) -> SubmittedJob:
    """Submit a module for tuning.

    A retry within a day, with the same Idempotency-Key and body, makes no second job.
    """
    sender = _sender(token, idempotency_key, asked_sha256=request.scope[SHA256_KEY])
    job_id, _ = submit(body, sender, engine=engine, intake=intake, settings=settings)
    with reading(engine) as session:
        view = _view(session, job_id)
        secs = estimated_secs(session, view, settings)
    for task in view.tasks:
        _log.info(
            "task_submitted", job_id=job_id, task_id=task.id, search_id=task.search_id, owner=token.name
        )
    response.headers["Location"] = f"/v1/jobs/{job_id}"
    return SubmittedJob(**dict(view), estimated_secs=secs)


@router.get("")
def list_all_jobs(
    token: JobsReader,
    engine: EngineDep,
    state: Annotated[list[JobState] | None, Query()] = None,
    owner: Annotated[str | None, Query(max_length=120, pattern=r"^[^\x00]*$")] = None,
    page_size: PageSize = 50,
    page_token: PageToken = None,
) -> JobPage:
    """Jobs, newest first."""
    del token
    with reading(engine) as session:
        jobs = list_jobs(
            session, limit=page_size + 1, after=job_place(page_token), states=state or (), owner=owner
        )
        more, jobs = len(jobs) > page_size, jobs[:page_size]
        summaries = job_summaries(session, jobs)
    last = Place(created_at=jobs[-1].created_at, id=jobs[-1].id) if more else None
    return JobPage(jobs=summaries, next_page_token=None if last is None else job_token(last))


@router.get("/{job_id}")
def show_job(job_id: JobId, token: JobsReader, engine: EngineDep) -> JobView:
    del token
    with reading(engine) as session:
        return _view(session, job_id)


@router.patch("/{job_id}")
def change_a_job(
    job_id: JobId, body: ChangeJob, token: JobsWriter, engine: EngineDep, settings: SettingsDep
) -> JobView:
    """Change the budget, the priority or the name of a job that has not ended."""
    changes = body.model_dump(exclude_none=True)
    require_budget(body.max_trials, settings)
    with transaction(engine) as session:
        job = _owned(session, job_id, token)
        if changes and not change_job(session, job_id, changes):
            if job.state.ended:
                raise _ended(job)
            raise ConflictError("budget_spent", "more trials are spent than the new max_trials")
        return _view(session, job_id)


@router.post("/{job_id}:cancel")
def cancel_job(job_id: JobId, token: JobsWriter, engine: EngineDep) -> JobView:
    """Ask that the job stops for good; its results so far stay. Safe to send again."""
    return _ask(job_id, DesiredState.CANCELLED, token, engine)


@router.post("/{job_id}:pause")
def pause_job(job_id: JobId, token: JobsWriter, engine: EngineDep) -> JobView:
    """Ask that the job stops measuring until it is resumed."""
    return _ask(job_id, DesiredState.PAUSED, token, engine)


@router.post("/{job_id}:resume")
def resume_job(job_id: JobId, token: JobsWriter, engine: EngineDep) -> JobView:
    return _ask(job_id, DesiredState.RUNNING, token, engine)


@router.post("/{job_id}:continue", status_code=201)
def continue_job(
    job_id: JobId,
    body: ContinueJob,
    request: Request,
    response: Response,
    token: JobsWriter,
    engine: EngineDep,
    settings: SettingsDep,
    idempotency_key: IdempotencyKey = None,
) -> JobView:
    """Tune on after a job's end: a new job of the same tasks, that begins with all that is known of them."""
    # The body alone does not say which job is meant.
    asked = f"{job_id}:continue {request.scope[SHA256_KEY]}"
    sender = _sender(token, idempotency_key, asked_sha256=hashlib.sha256(asked.encode()).hexdigest())
    with reading(engine) as session:
        _owned(session, job_id, token)
    made = continue_from(job_id, body.max_trials, sender, engine=engine, settings=settings)
    _log.info("job_continued", job_id=made, continues=job_id, owner=token.name)
    response.headers["Location"] = f"/v1/jobs/{made}"
    with reading(engine) as session:
        return _view(session, made)


@router.get(
    "/{job_id}/events",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {}}, "description": "`job` events, at last one `end`"}},
)
async def follow_job(job_id: JobId, token: JobsReader, engine: EngineDep, events: EventsDep) -> Response:
    """Snapshots of the job as server-sent events, id = revision; whoever comes back gets the present one."""
    del token
    events.admit()

    def read() -> JobView:
        with reading(engine) as session:
            return _view(session, job_id)

    first = await run_in_threadpool(read)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(events.stream(first), media_type="text/event-stream", headers=headers)


def _sender(token: JobsWriter, idempotency_key: str | None, *, asked_sha256: str) -> Sender:
    return Sender(
        token_id=token.id, name=token.name, idempotency_key=idempotency_key, body_sha256=asked_sha256
    )


def _ask(job_id: str, desired: DesiredState, token: JobsWriter, engine: EngineDep) -> JobView:
    with transaction(engine) as session:
        job = _owned(session, job_id, token)
        if job.state.ended and job.state.value != desired.value:
            raise _ended(job)
        if job.desired_state != desired and not ask_state(session, job_id, desired):
            raise ConflictError("job_cancelled", f"{job_id} is being cancelled")
        return _view(session, job_id)


def _owned(session: Session, job_id: str, token: JobsWriter) -> Job:
    job = read_job(session, job_id)
    if job is None:
        raise _not_found(job_id)
    require_owner(token, job.owner)
    return job


def _view(session: Session, job_id: str) -> JobView:
    view = job_view(session, job_id)
    if view is None:
        raise _not_found(job_id)
    return view


def _ended(job: Job) -> ConflictError:
    said = f"{job.id} has ended: it is {job.state}; POST /v1/jobs/{job.id}:continue tunes on from there"
    return ConflictError("job_ended", said)


def _not_found(job_id: str) -> NotFoundError:
    return NotFoundError("job_not_found", f"there is no job {job_id}")
