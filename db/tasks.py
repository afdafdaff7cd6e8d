"""Tasks and the searches they attach to: inserts, reads. States move in db/progress.py, db/searches.py."""

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from db.conflict import insert_unless_there
from db.states import RecordState, TaskState
from db.tables import JobRow, RecordRow, SearchRow, TaskRow, WorkloadRow


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchKey:
    """What makes two tasks share one search."""

    workload_id: int
    target_id: int
    target_key: str
    tvm_version: str
    #: None for the default space.
    space: Mapping[str, Any] | None
    space_hash: str
    strategy: str
    seed: int
    #: MeasurePolicy as JSON.
    policy: Mapping[str, Any]
    #: Search settings.
    options: Mapping[str, Any]
    isolation_key: str

    @property
    def policy_hash(self) -> str:
        return _sha256(dict(self.policy))

    @property
    def key(self) -> str:
        return _sha256(
            [
                self.workload_id,
                self.target_key,
                self.tvm_version,
                self.space_hash,
                self.strategy,
                self.seed,
                self.policy_hash,
                dict(self.options),
                self.isolation_key,
            ]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTask:
    job_id: str
    ordinal: int
    name: str
    weight: float
    workload_id: int
    search_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task with what its search and its workload's current record say."""

    id: int
    job_id: str
    ordinal: int
    name: str
    weight: float
    state: TaskState
    error: str | None
    exhausted: bool
    stopped: str | None
    trials_reserved: int
    workload_id: int
    shash: str
    flops: float
    args: list[dict[str, Any]]
    search_id: int
    untuned_latency_secs: float | None
    #: The best measured in the search, the untuned module included once a candidate is; else that of the
    #: current record; seconds.
    best_latency_secs: float | None
    stage_secs: dict[str, float]
    #: The current record of (workload, target, TVM version).
    record_id: int | None
    #: The record was there before the job.
    already_tuned: bool
    max_trials: int


def find_or_make_search(session: Session, wanted: SearchKey) -> int:
    """The search of this key. One that failed is used again: the tuner service revives it for the new job."""
    values = {
        "key": wanted.key,
        "workload_id": wanted.workload_id,
        "target_id": wanted.target_id,
        "tvm_version": wanted.tvm_version,
        "space": None if wanted.space is None else dict(wanted.space),
        "space_hash": wanted.space_hash,
        "strategy": wanted.strategy,
        "seed": wanted.seed,
        "policy": dict(wanted.policy),
        "policy_hash": wanted.policy_hash,
        "options": dict(wanted.options),
        "isolation_key": wanted.isolation_key,
    }
    insert_unless_there(session, SearchRow, values, unique=["key"])
    return session.scalars(select(SearchRow.id).where(SearchRow.key == wanted.key)).one()


def insert_task(session: Session, new: NewTask) -> None:
    session.add(
        TaskRow(
            job_id=new.job_id,
            ordinal=new.ordinal,
            name=new.name,
            weight=new.weight,
            workload_id=new.workload_id,
            search_id=new.search_id,
        )
    )
    session.flush()


def tasks_of_jobs(session: Session, job_ids: Collection[str]) -> list[Task]:
    """By job, in the order of submission."""
    return _tasks(
        session, _query().where(TaskRow.job_id.in_(job_ids)).order_by(TaskRow.job_id, TaskRow.ordinal)
    )


def read_task(session: Session, task_id: int) -> Task | None:
    return next(iter(_tasks(session, _query().where(TaskRow.id == task_id))), None)


def _query() -> Select[Any]:
    newest = (
        select(func.max(RecordRow.id))
        .where(
            RecordRow.workload_id == SearchRow.workload_id,
            RecordRow.target_id == SearchRow.target_id,
            RecordRow.tvm_version == SearchRow.tvm_version,
            RecordRow.state == RecordState.PUBLISHED,
        )
        .correlate(SearchRow)
        .scalar_subquery()
    )
    before = (
        select(func.count())
        .where(
            RecordRow.workload_id == SearchRow.workload_id,
            RecordRow.target_id == SearchRow.target_id,
            RecordRow.tvm_version == SearchRow.tvm_version,
            RecordRow.state == RecordState.PUBLISHED,
            RecordRow.created_at <= JobRow.created_at,
        )
        .correlate(SearchRow, JobRow)
        .scalar_subquery()
    )
    return (
        select(
            TaskRow, WorkloadRow.shash, WorkloadRow.flops, WorkloadRow.args, SearchRow, RecordRow.id,
            RecordRow.latency_secs, before, JobRow.max_trials, JobRow.max_trials_per_task,
        )
        .join(JobRow, JobRow.id == TaskRow.job_id)
        .join(WorkloadRow, WorkloadRow.id == TaskRow.workload_id)
        .join(SearchRow, SearchRow.id == TaskRow.search_id)
        .outerjoin(RecordRow, RecordRow.id == newest)
    )  # fmt: skip


def _tasks(session: Session, statement: Select[Any]) -> list[Task]:
    return [_task(*found) for found in session.execute(statement)]


def _task(  # noqa: PLR0913, PLR0917 - one argument per column of the query
    row: TaskRow,
    shash: str,
    flops: float,
    args: list[dict[str, Any]],
    search: SearchRow,
    record_id: int | None,
    record_latency_secs: float | None,
    records_before: int,
    max_trials: int,
    max_trials_per_task: int | None,
) -> Task:
    best = search.best_latency_secs
    if best is not None and search.untuned_latency_secs is not None:
        best = min(best, search.untuned_latency_secs)
    return Task(
        id=row.id,
        job_id=row.job_id,
        ordinal=row.ordinal,
        name=row.name,
        weight=row.weight,
        state=TaskState.of(row.state),
        error=row.error,
        exhausted=row.exhausted,
        stopped=row.stopped,
        trials_reserved=row.trials_reserved,
        workload_id=row.workload_id,
        shash=shash,
        flops=flops,
        args=args,
        search_id=search.id,
        untuned_latency_secs=search.untuned_latency_secs,
        best_latency_secs=record_latency_secs if best is None else best,
        stage_secs=search.stage_secs,
        record_id=record_id,
        already_tuned=records_before > 0,
        max_trials=max_trials if max_trials_per_task is None else min(max_trials, max_trials_per_task),
    )


def _sha256(obj: Any) -> str:
    return hashlib.sha256(json.dumps(obj, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
