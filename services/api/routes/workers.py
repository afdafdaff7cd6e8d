"""/v1/workers: join, heartbeat, leave; list, drain, resume. A worker has no other way to the database."""

import contextlib

from fastapi import APIRouter, Response
from pydantic import ValidationError
from sqlalchemy.orm import Session

from checks.target import is_profile_name, key
from db import workers
from db.profiles import store_profile
from db.session import reading, transaction
from db.states import WorkerRole, WorkerState
from db.targets import store_target
from db.tokens import Token
from services.api.auth import (
    Admin,
    Credentials,
    JobsReader,
    WorkerToken,
    has_scope,
    known_token,
    require_scope,
)
from services.api.deps import EngineDep, IntakeDep, SettingsDep
from services.api.errors import ConflictError, ForbiddenError, InvalidError, NotFoundError
from services.api.ids import WorkerId
from services.api.paging import MOST_ON_A_PAGE, PageSize, PageToken, worker_place, worker_token
from services.api.schemas_records import (
    Heartbeat,
    HeartbeatAnswer,
    JoinedWorker,
    JoinWorker,
    SelfTestKernels,
    WorkerPage,
    WorkerView,
)
from services.api.targets import checked
from services.api.worker_views import worker_view
from workers.queues import work_queue

router = APIRouter(prefix="/v1/workers", tags=["workers"])
_NOT_STORED = {"target", "profiles", "features", "machine"}


@router.post(":join", status_code=201)
def join(
    body: JoinWorker, token: WorkerToken, engine: EngineDep, intake: IntakeDep, settings: SettingsDep
) -> JoinedWorker:
    """A worker begins; from now on only its token may speak for it.

    A predecessor of the same name has left, unless it lives and another token speaks for it. Its profiles
    name this target from now on.
    """
    for profile in body.profiles:
        if not is_profile_name(profile):
            detail = f"{profile[:80]!r} is no name for a profile"
            raise InvalidError.of("bad_profile", detail)
    form = checked(body.target)
    checks = WorkerRole(body.role) is not WorkerRole.BUILD and body.machine is not None
    host = {"features": body.features, "machine": body.machine} if checks else None
    with intake.open() as child:
        target = checked(child.target(form, host=host))
    with transaction(engine) as session:
        speaker = workers.speaker_for(session, body.name, within_secs=settings.dead_after_secs)
        if speaker not in (None, token.id):
            detail = f"{body.name} lives, and another token speaks for it: set TILEFARM_WORKER_NAME"
            raise ConflictError("name_taken", detail)
        row = store_target(session, target, key=key(target))
        for profile in body.profiles:
            store_profile(session, profile, target_id=row.id)
        worker_id = workers.join(
            session,
            workers.NewWorker(target_id=row.id, token_id=token.id, **body.model_dump(exclude=_NOT_STORED)),
        )
    return JoinedWorker(
        worker_id=worker_id,
        target=target,
        target_key=row.key,
        queues=[work_queue(row.key, WorkerRole(body.role))],
        broker_url=settings.broker_url,
        heartbeat_secs=settings.heartbeat_secs,
    )


@router.post("/{worker_id}:heartbeat", response_model=HeartbeatAnswer)
def heartbeat(worker_id: WorkerId, body: Heartbeat, credentials: Credentials, engine: EngineDep) -> Response:
    """What the worker holds; the answer is its control channel. 404: join again.

    Most of what the API is asked: one transaction, its token's row included, in one turn of a thread.
    """
    with transaction(engine) as session:
        token = known_token(session, credentials)
        require_scope(token, "worker")
        desired = workers.beat(
            session,
            worker_id,
            token_id=token.id,
            holding=body.holding,
            stage_secs=body.stage_secs,
            quarantined=body.quarantined,
            facts=body.facts,
        )
        if desired is None:
            _require_own(session, worker_id, token)
            raise _not_found(worker_id)
        orders = workers.orders(session, body.holding)
    answer = HeartbeatAnswer(
        drop=orders.drop,
        drain=desired == WorkerState.DRAINING,
        best_latency_secs=orders.best_latency_secs,
    )
    return Response(answer.model_dump_json(), media_type="application/json")


@router.post("/{worker_id}:leave", status_code=204)
def leave(worker_id: WorkerId, token: WorkerToken, engine: EngineDep) -> Response:
    """The worker ends; an administrator says so for one that died. One that lives joins again by itself."""
    with transaction(engine) as session:
        if not has_scope(token, "admin"):
            _require_own(session, worker_id, token)
        if not workers.leave(session, worker_id):
            raise _not_found(worker_id)
    return Response(status_code=204)


@router.get("")
def list_all_workers(
    token: JobsReader,
    engine: EngineDep,
    settings: SettingsDep,
    *,
    include_left: bool = False,
    page_size: PageSize = MOST_ON_A_PAGE,
    page_token: PageToken = None,
) -> WorkerPage:
    """The fleet by name; those that left only where asked."""
    del token
    with reading(engine) as session:
        found = workers.list_workers(
            session, include_left=include_left, limit=page_size + 1, after=worker_place(page_token)
        )
    more, found = len(found) > page_size, found[:page_size]
    return WorkerPage(
        workers=[worker_view(worker, settings) for worker in found],
        next_page_token=worker_token(found[-1].place) if more else None,
    )


@router.get("/{worker_id}")
def show_worker(
    worker_id: WorkerId, token: JobsReader, engine: EngineDep, settings: SettingsDep
) -> WorkerView:
    del token
    with reading(engine) as session:
        return _view(session, worker_id, settings)


@router.get("/{worker_id}/selftest-kernels")
def selftest_kernels(worker_id: WorkerId, token: WorkerToken, engine: EngineDep) -> SelfTestKernels:
    """Which artifact a device that cannot build tests itself with: what a builder of its target has named."""
    with reading(engine) as session:
        _require_own(session, worker_id, token)
        for named in workers.selftest_kernels(session, worker_id):
            with contextlib.suppress(ValidationError):
                return SelfTestKernels.model_validate(named)
    detail = "no build worker of this worker's target has named self-test kernels"
    raise NotFoundError("selftest_kernels_not_found", detail)


@router.post("/{worker_id}:drain")
def drain(worker_id: WorkerId, token: Admin, engine: EngineDep, settings: SettingsDep) -> WorkerView:
    """Ask the worker to take nothing new."""
    del token
    return _ask(worker_id, WorkerState.DRAINING, engine, settings)


@router.post("/{worker_id}:resume")
def resume(worker_id: WorkerId, token: Admin, engine: EngineDep, settings: SettingsDep) -> WorkerView:
    del token
    return _ask(worker_id, WorkerState.RUNNING, engine, settings)


def _require_own(session: Session, worker_id: str, token: Token) -> None:
    """Raises ForbiddenError where another token joined as this worker."""
    if workers.token_of(session, worker_id) not in (None, token.id):
        raise ForbiddenError("not_this_worker", "another token joined as this worker: join under your own")


def _ask(worker_id: str, desired: WorkerState, engine: EngineDep, settings: SettingsDep) -> WorkerView:
    with transaction(engine) as session:
        if not workers.ask_state(session, worker_id, desired):
            raise _not_found(worker_id)
        return _view(session, worker_id, settings)


def _view(session: Session, worker_id: str, settings: SettingsDep) -> WorkerView:
    worker = workers.read_worker(session, worker_id)
    if worker is None:
        raise _not_found(worker_id)
    return worker_view(worker, settings)


def _not_found(worker_id: str) -> NotFoundError:
    return NotFoundError("worker_not_found", f"there is no worker {worker_id}, or it has left")
