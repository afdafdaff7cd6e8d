"""What the fleet has to do and does: open trials by target, held trials by name. Read only."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import case, func, select
from sqlalchemy.orm import Session

from db.clock import secs_since, utc_now
from db.states import OPEN_TRIALS, Outcome, TrialState
from db.tables import SearchRow, TargetRow, TaskRow, TrialRow

#: Of one statement: SQLite takes 32,766 parameters, PostgreSQL 65,535.
_MOST_IDS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDepth:
    """Open trials of a target."""

    target_key: str
    target: dict[str, Any]
    queued: int
    dispatched: int
    #: Seconds since the oldest of them was made.
    oldest_secs: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    trial_id: int
    task_id: int
    task_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRate:
    """What a worker did within a while."""

    worker_id: str
    done: int
    failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A trial that a worker has done."""

    worker_id: str
    done_ago_secs: float
    stage_secs: dict[str, float]


def queue_depths(session: Session) -> list[QueueDepth]:
    statement = (
        select(
            TargetRow.key,
            TargetRow.canonical,
            func.sum(case((TrialRow.state == TrialState.QUEUED, 1), else_=0)),
            func.sum(case((TrialRow.state == TrialState.DISPATCHED, 1), else_=0)),
            func.max(secs_since(TrialRow.created_at)),
        )
        .join(SearchRow, SearchRow.id == TrialRow.search_id)
        .join(TargetRow, TargetRow.id == SearchRow.target_id)
        .where(TrialRow.state.in_(OPEN_TRIALS))
        .group_by(TargetRow.key, TargetRow.canonical)
        .order_by(TargetRow.key)
    )
    return [
        QueueDepth(target_key=row[0], target=row[1], queued=row[2], dispatched=row[3], oldest_secs=row[4])
        for row in session.execute(statement)
    ]


def held_trials(session: Session, trial_ids: Collection[int]) -> dict[int, Held]:
    """As many as thousands of workers hold."""
    ids = sorted(trial_ids)
    held: dict[int, Held] = {}
    for first in range(0, len(ids), _MOST_IDS):
        statement = (
            select(TrialRow.id, TrialRow.task_id, TaskRow.name)
            .join(TaskRow, TaskRow.id == TrialRow.task_id)
            .where(TrialRow.id.in_(ids[first : first + _MOST_IDS]))
        )
        for row in session.execute(statement):
            held[row.id] = Held(trial_id=row.id, task_id=row.task_id, task_name=row.name)
    return held


def latest_work(session: Session, *, within_secs: float, limit: int) -> list[Work]:
    """What workers have done lately, the newest first: at most so many trials."""
    statement = (
        select(TrialRow.worker_id, secs_since(TrialRow.done_at), TrialRow.stage_secs)
        .where(TrialRow.done_at > _ago(within_secs), TrialRow.worker_id.is_not(None))
        .order_by(TrialRow.done_at.desc())
        .limit(limit)
    )
    return [
        Work(worker_id=worker_id, done_ago_secs=ago, stage_secs=stage_secs or {})
        for worker_id, ago, stage_secs in session.execute(statement)
        if worker_id is not None
    ]


def worker_rates(session: Session, *, within_secs: float) -> dict[str, WorkerRate]:
    """By worker: trials done lately, and how many of them neither measured nor were cut off."""
    good = (Outcome.OK, Outcome.CUT_OFF)
    statement = (
        select(TrialRow.worker_id, func.count(), func.sum(case((TrialRow.outcome.in_(good), 0), else_=1)))
        .where(
            TrialRow.done_at > _ago(within_secs),
            TrialRow.worker_id.is_not(None),
        )
        .group_by(TrialRow.worker_id)
    )
    return {
        row[0]: WorkerRate(worker_id=row[0], done=row[1], failed=row[2]) for row in session.execute(statement)
    }


def _ago(secs: float) -> Any:
    """Asked once in a statement, so that an index finds what is newer."""
    return select(utc_now(offset_secs=-secs)).scalar_subquery()
