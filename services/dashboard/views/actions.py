"""What a page asks of jobs and workers: POST alone, with a CSRF token, by the API's own handlers."""

import json
from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from db.jobs import read_job
from db.lookup_traffic import MissKey, missed_workload
from db.session import reading
from db.states import DesiredState, WorkerState
from services.api.auth import JobsWriter, has_scope, require_owner
from services.api.continuing import continue_from
from services.api.deps import EngineDep, IntakeDep, SettingsDep
from services.api.errors import ForbiddenError, NotFoundError
from services.api.ids import JobId, WorkerId
from services.api.routes import jobs, workers
from services.api.schemas import ChangeJob, ContinueJob, SubmitJob
from services.api.schemas_records import TvmVersion
from services.api.sender import Sender
from services.api.submission import submit
from services.dashboard.assets import asset_bytes
from services.dashboard.viewer import Acting

router = APIRouter(include_in_schema=False)
EXAMPLE = "example.job.json"


class _AskJob(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    desired: DesiredState


class _AskWorker(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    desired: Annotated[str, Field(pattern="^(running|draining)$")]


class _Missed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    shash: Annotated[str, Field(pattern="^[0-9a-f]{16}$")]
    target_key: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    tvm_version: TvmVersion


class _Tune(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    missed: Annotated[list[_Missed], Field(min_length=1, max_length=10)]


class _Done(BaseModel):
    #: Where the page goes from here; None: it stays.
    goto: str | None = None


@router.post("/jobs/{job_id}/ask")
def ask_job(job_id: JobId, body: _AskJob, who: Acting, engine: EngineDep) -> _Done:
    token = _writer(who)
    asked = {
        DesiredState.CANCELLED: jobs.cancel_job,
        DesiredState.PAUSED: jobs.pause_job,
        DesiredState.RUNNING: jobs.resume_job,
    }
    asked[body.desired](job_id, token, engine)
    return _Done()


@router.post("/jobs/{job_id}/change")
def change_job(
    job_id: JobId, body: ChangeJob, who: Acting, engine: EngineDep, settings: SettingsDep
) -> _Done:
    jobs.change_a_job(job_id, body, _writer(who), engine, settings)
    return _Done()


@router.post("/jobs/{job_id}/continue")
def continue_job(
    job_id: JobId, body: ContinueJob, who: Acting, engine: EngineDep, settings: SettingsDep
) -> _Done:
    """More trials for a job that has ended: a job of its own, to which the page goes."""
    token = _writer(who)
    with reading(engine) as session:
        job = read_job(session, job_id)
    if job is None:
        raise NotFoundError("job_not_found", f"there is no job {job_id}")
    require_owner(token, job.owner)
    made = continue_from(job_id, body.max_trials, _sender(token), engine=engine, settings=settings)
    return _Done(goto=f"/jobs/{made}")


@router.post("/workers/{worker_id}/ask")
def ask_worker(
    worker_id: WorkerId, body: _AskWorker, who: Acting, engine: EngineDep, settings: SettingsDep
) -> _Done:
    if not who.may("admin"):
        raise ForbiddenError("missing_scope", "draining a worker takes the scope admin")
    desired = WorkerState(body.desired)
    asked = workers.drain if desired == WorkerState.DRAINING else workers.resume
    asked(worker_id, who.token, engine, settings)
    return _Done()


@router.post("/records/tune")
def tune_missed(
    body: _Tune, who: Acting, engine: EngineDep, intake: IntakeDep, settings: SettingsDep
) -> _Done:
    """A job for each of the missed workloads, whose modules must be known; at the default budget."""
    token = _writer(who)
    made = []
    for asked in body.missed:
        key = MissKey(shash=asked.shash, target_key=asked.target_key, tvm_version=asked.tvm_version)
        with reading(engine) as session:
            found = missed_workload(session, key)
            if found is None:
                raise NotFoundError("unknown_workload", f"no module of {asked.shash} is known; submit it")
            module, target, name = found
        request = SubmitJob(module=module, target=target, name=(name or asked.shash)[:200])
        job_id, _ = submit(request, _sender(token), engine=engine, intake=intake, settings=settings)
        made.append(job_id)
    return _Done(goto=f"/jobs/{made[0]}" if len(made) == 1 else "/")


@router.post("/example")
def run_example(who: Acting, engine: EngineDep, intake: IntakeDep, settings: SettingsDep) -> _Done:
    """Submit a matmul with ReLU for the profile `local`."""
    token = _writer(who)
    request = SubmitJob(**json.loads(asset_bytes(EXAMPLE)))
    job_id, _ = submit(request, _sender(token), engine=engine, intake=intake, settings=settings)
    return _Done(goto=f"/jobs/{job_id}")


def _writer(who: Acting) -> JobsWriter:
    if not has_scope(who.token, "jobs:write"):
        raise ForbiddenError("missing_scope", "changing a job takes the scope jobs:write")
    return who.token


def _sender(token: JobsWriter) -> Sender:
    return Sender(token_id=token.id, name=token.name)
