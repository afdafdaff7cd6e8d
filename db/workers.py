"""Workers as the API writes them: join, heartbeat, leave, drain. Their age is database time."""

import base64
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from sqlalchemy import (
    Boolean,
    ColumnElement,
    Select,
    Table,
    and_,
    bindparam,
    case,
    delete,
    func,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy.orm import Session

from db.clock import secs_since, utc_now
from db.farm_tables import WorkerRow
from db.rowcount import changed
from db.states import DesiredState, TrialState, WorkerRole, WorkerState
from db.tables import JobRow, SearchRow, TargetRow, TrialRow

_DAY_SECS = 86_400.0
#: One that lives after all joins again.
_GONE_SECS = 7 * _DAY_SECS
_MOST_BUILDERS = 16
_MOST_LATEST = 32
_WORKERS = cast("Table", WorkerRow.__table__)
# Made once: heartbeats are most of what the API is asked.
_BEAT = (
    update(_WORKERS)
    .where(
        _WORKERS.c.id == bindparam("worker"),
        _WORKERS.c.state != WorkerState.LEFT,
        or_(_WORKERS.c.token_id.is_(None), _WORKERS.c.token_id == bindparam("token")),
    )
    .values(
        heartbeat_at=utc_now(),
        holding=bindparam("held"),
        stage_secs=bindparam("stages"),
        state=case(
            (bindparam("ailing", type_=Boolean()), WorkerState.QUARANTINED), else_=_WORKERS.c.desired_state
        ),
    )
    .returning(_WORKERS.c.desired_state)
)
_WANTED = (
    select(TrialRow.id, TrialRow.attempt, SearchRow.id, SearchRow.best_latency_secs)
    .join(JobRow, JobRow.id == TrialRow.job_id)
    .join(SearchRow, SearchRow.id == TrialRow.search_id)
    .where(
        TrialRow.id.in_(bindparam("trial_ids", expanding=True)),
        TrialRow.state == TrialState.DISPATCHED,
        JobRow.desired_state == DesiredState.RUNNING,
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewWorker:
    name: str
    host: str
    device: str
    device_class: str
    target_id: int
    role: str
    cores: int
    memory_bytes: int
    tvm_version: str
    facts: Mapping[str, Any]
    #: Of the token that joins.
    token_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPlace:
    """Where a page of the list ends: by name."""

    name: str
    started_at: datetime
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    id: str
    name: str
    host: str
    device: str
    device_class: str
    target_key: str
    target: dict[str, Any]
    role: str
    state: WorkerState
    desired_state: WorkerState
    cores: int
    memory_bytes: int
    tvm_version: str
    facts: dict[str, Any]
    holding: list[list[int]]
    stage_secs: dict[str, float]
    started_at: datetime
    heartbeat_at: datetime
    #: Seconds since the last heartbeat.
    silent_secs: float

    @property
    def place(self) -> WorkerPlace:
        return WorkerPlace(name=self.name, started_at=self.started_at, id=self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """The answer to a heartbeat, besides whether to drain."""

    #: Held attempts whose job stops, or that are not dispatched as this attempt.
    drop: list[tuple[int, int]]
    #: Of the searches of the others, by id, as far as they have a best.
    best_latency_secs: dict[int, float]


def token_of(session: Session, worker_id: str) -> int | None:
    """Of the token that it joined with; None where none is known, or there is no such worker."""
    return session.scalars(select(WorkerRow.token_id).where(WorkerRow.id == worker_id)).first()


def speaker_for(session: Session, name: str, *, within_secs: float) -> int | None:
    """The token of the worker of this name, if it was heard of so lately; None where it is free."""
    statement = select(WorkerRow.token_id).where(
        WorkerRow.name == name,
        WorkerRow.state != WorkerState.LEFT,
        WorkerRow.heartbeat_at > utc_now(offset_secs=-within_secs),
    )
    return session.scalars(statement).first()


def join(session: Session, new: NewWorker) -> str:
    """A new worker; a predecessor of the same name has left, and so has whoever was silent for a week.

    In a cluster each pod has a name of its own, and one that was killed never says that it leaves.
    """
    gone = WorkerRow.heartbeat_at < utc_now(offset_secs=-_GONE_SECS)
    _leave(session, or_(WorkerRow.name == new.name, gone))
    worker_id = "worker-" + base64.b32encode(secrets.token_bytes(10)).decode().lower()
    session.add(
        WorkerRow(
            id=worker_id,
            name=new.name,
            host=new.host,
            device=new.device,
            device_class=new.device_class,
            target_id=new.target_id,
            role=new.role,
            cores=new.cores,
            memory_bytes=new.memory_bytes,
            tvm_version=new.tvm_version,
            facts=dict(new.facts),
            token_id=new.token_id,
        )
    )
    session.flush()
    return worker_id


def beat(
    session: Session,
    worker_id: str,
    *,
    token_id: int,
    holding: Sequence[tuple[int, int]],
    stage_secs: Mapping[str, float],
    quarantined: bool = False,
    facts: Mapping[str, Any] | None = None,
) -> WorkerState | None:
    """Note a heartbeat; the state that is wanted of the worker.

    None where it has left, never joined, or joined with another token than this one. `facts` are added to the
    row's, by name. The worker itself knows whether it is quarantined.
    """
    told = {"worker": worker_id, "token": token_id, "held": [list(held) for held in holding]}
    told |= {"stages": dict(stage_secs), "ailing": quarantined}
    desired = session.scalars(_BEAT, told).first()
    if desired is not None and facts:
        which = WorkerRow.id == worker_id
        known = session.scalars(select(WorkerRow.facts).where(which)).one()
        session.execute(update(WorkerRow).where(which).values(facts={**known, **facts}))
    return None if desired is None else WorkerState.of(desired)


def orders(session: Session, holding: Sequence[tuple[int, int]]) -> Orders:
    """What a worker that holds these (trial, attempt) is to know."""
    if not holding:
        return Orders(drop=[], best_latency_secs={})
    held_ids = sorted({trial_id for trial_id, _ in holding})
    found = session.execute(_WANTED, {"trial_ids": held_ids}).all()
    wanted = {(trial_id, attempt) for trial_id, attempt, _, _ in found}
    return Orders(
        drop=[held for held in holding if held not in wanted],
        best_latency_secs={search_id: secs for _, _, search_id, secs in found if secs is not None},
    )


def selftest_kernels(session: Session, worker_id: str) -> list[Any]:
    """What builders of a worker's target have named for self-tests, the last heard of first."""
    target_id = select(WorkerRow.target_id).where(WorkerRow.id == worker_id).scalar_subquery()
    statement = (
        select(WorkerRow.facts)
        .where(
            WorkerRow.target_id == target_id,
            WorkerRow.role == WorkerRole.BUILD,
            WorkerRow.state != WorkerState.LEFT,
        )
        .order_by(WorkerRow.heartbeat_at.desc())
        .limit(_MOST_BUILDERS)
    )
    return [facts["selftest_kernels"] for facts in session.scalars(statement) if "selftest_kernels" in facts]


def heard_within(secs: float) -> ColumnElement[bool]:
    """Workers of which something was heard within so many seconds, by the index of their heartbeats.

    The database's clock moves while a statement runs, so that no index serves it: a subquery reads it once.
    The upper bound tells PostgreSQL that few rows are meant: of a lower one alone it expects a third of all.
    """
    since, until = (select(utc_now(offset_secs=offset)).scalar_subquery() for offset in (-secs, _DAY_SECS))
    return WorkerRow.heartbeat_at.between(since, until)


def forget_left(session: Session, *, silent_secs: float, limit: int) -> int:
    """Delete at most `limit` workers that left and were silent for so long; how many there were.

    The last one of each target and device class stays: its facts tell what the device can do. Trials keep
    their worker's id.
    """
    kind = (WorkerRow.target_id, WorkerRow.device_class)
    last = select(*kind, func.max(WorkerRow.heartbeat_at).label("at")).group_by(*kind).subquery()
    gone = (
        select(WorkerRow.id)
        .join(last, and_(last.c.target_id == kind[0], last.c.device_class == kind[1]))
        .where(
            WorkerRow.state == WorkerState.LEFT,
            WorkerRow.heartbeat_at < utc_now(offset_secs=-silent_secs),
            WorkerRow.heartbeat_at < last.c.at,
        )
        .limit(limit)
    )
    return changed(session, delete(WorkerRow).where(WorkerRow.id.in_(gone)))


def leave(session: Session, worker_id: str) -> bool:
    return _leave(session, WorkerRow.id == worker_id)


def ask_state(session: Session, worker_id: str, desired: WorkerState) -> bool:
    """Drain or resume a worker; False where it has left."""
    statement = update(WorkerRow).where(WorkerRow.id == worker_id, WorkerRow.state != WorkerState.LEFT)
    return changed(session, statement.values(desired_state=desired)) == 1


def read_worker(session: Session, worker_id: str) -> Worker | None:
    return next(iter(_workers(session, _query().where(WorkerRow.id == worker_id))), None)


def list_workers(
    session: Session,
    *,
    include_left: bool = False,
    limit: int | None = None,
    after: WorkerPlace | None = None,
) -> list[Worker]:
    """By name, all of them or a page's; of those that left only where asked."""
    order = (WorkerRow.name, WorkerRow.started_at, WorkerRow.id)
    statement = _query().order_by(*order).limit(limit)
    if after is not None:
        statement = statement.where(tuple_(*order) > (after.name, after.started_at, after.id))
    if not include_left:
        statement = statement.where(WorkerRow.state != WorkerState.LEFT)
    return _workers(session, statement)


def latest_workers(session: Session, *, target_key: str) -> list[Worker]:
    """Some of a target, those heard of last first, whether they have left or not."""
    statement = _query().where(TargetRow.key == target_key).order_by(WorkerRow.heartbeat_at.desc())
    return _workers(session, statement.limit(_MOST_LATEST))


def worker_names(session: Session, worker_ids: Collection[str]) -> dict[str, str]:
    """By id; those that left long ago may be forgotten."""
    statement = select(WorkerRow.id, WorkerRow.name).where(WorkerRow.id.in_(worker_ids))
    return {row.id: row.name for row in session.execute(statement)}


def _leave(session: Session, which: Any) -> bool:
    statement = update(WorkerRow).where(which, WorkerRow.state != WorkerState.LEFT)
    return changed(session, statement.values(state=WorkerState.LEFT, holding=[])) > 0


def _query() -> Select[WorkerRow, TargetRow, float]:
    return select(WorkerRow, TargetRow, secs_since(WorkerRow.heartbeat_at).label("silent_secs")).join(
        TargetRow, TargetRow.id == WorkerRow.target_id
    )


def _workers(session: Session, statement: Select[WorkerRow, TargetRow, float]) -> list[Worker]:
    return [
        Worker(
            id=row.id,
            name=row.name,
            host=row.host,
            device=row.device,
            device_class=row.device_class,
            target_key=target.key,
            target=target.canonical,
            role=row.role,
            state=WorkerState.of(row.state),
            desired_state=WorkerState.of(row.desired_state),
            cores=row.cores,
            memory_bytes=row.memory_bytes,
            tvm_version=row.tvm_version,
            facts=row.facts,
            holding=row.holding,
            stage_secs=row.stage_secs,
            started_at=row.started_at,
            heartbeat_at=row.heartbeat_at,
            silent_secs=silent_secs,
        )
        for row, target, silent_secs in session.execute(statement)
    ]
