"""Trials as their watchers see them: counts and pages. Their states move in db/trials.py."""

import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session, defer

from db.clock import secs_since, utc_now
from db.states import Outcome, Purpose, TrialState
from db.tables import SearchRow, TrialRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """Search trials of a task in one state, with one outcome."""

    job_id: str
    task_id: int
    state: TrialState
    outcome: Outcome | None
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    id: int
    job_id: str
    task_id: int
    search_id: int
    purpose: Purpose
    state: TrialState
    round: int
    trace_hash: str
    program_hash: str | None
    predicted_score: float | None
    attempt: int
    outcome: Outcome | None
    run_secs: list[float] | None
    latency_secs: float | None
    error: str | None
    stage_secs: dict[str, float] | None
    worker_id: str | None
    device_class: str | None
    tvm_version: str | None
    created_at: datetime
    done_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Trials done lately, and the seconds they took together."""

    trials: int
    secs: float


def counts_of_jobs(session: Session, job_ids: Collection[str]) -> list[Count]:
    """Only search trials: they are what a job is charged."""
    statement = (
        select(TrialRow.job_id, TrialRow.task_id, TrialRow.state, TrialRow.outcome, func.count())
        .where(TrialRow.job_id.in_(job_ids), TrialRow.purpose == Purpose.SEARCH)
        .group_by(TrialRow.job_id, TrialRow.task_id, TrialRow.state, TrialRow.outcome)
    )
    return [
        Count(
            job_id=job_id,
            task_id=task_id,
            state=TrialState.of(state),
            outcome=None if outcome is None else Outcome.of(outcome),
            count=count,
        )
        for job_id, task_id, state, outcome, count in session.execute(statement)
    ]


def list_trials(
    session: Session,
    job_id: str,
    *,
    limit: int,
    after_id: int | None,
    task_id: int | None = None,
    outcomes: Sequence[Outcome] = (),
    states: Sequence[TrialState] = (),
) -> list[Trial]:
    """Newest first."""
    conditions: list[ColumnElement[bool]] = [TrialRow.job_id == job_id]
    if after_id is not None:
        conditions.append(TrialRow.id < after_id)
    if task_id is not None:
        conditions.append(TrialRow.task_id == task_id)
    if outcomes:
        conditions.append(TrialRow.outcome.in_(outcomes))
    if states:
        conditions.append(TrialRow.state.in_(states))
    statement = (
        select(TrialRow)
        .where(*conditions)
        .order_by(TrialRow.id.desc())
        .limit(limit)
        .options(defer(TrialRow.trace_z), defer(TrialRow.features_z))
    )
    return [_trial(row) for row in session.scalars(statement)]


def read_trial(session: Session, trial_id: int) -> tuple[Trial, str | None] | None:
    """The trial and its trace's JSON text, where retention has kept it."""
    row = session.get(TrialRow, trial_id)
    if row is None:
        return None
    return _trial(row), None if row.trace_z is None else zlib.decompress(row.trace_z).decode()


def recent_rate(session: Session, *, target_id: int | None, within_secs: float) -> Rate:
    """How fast trials were done lately, of one target or of all."""
    age_secs = secs_since(TrialRow.done_at)
    statement = select(func.count(), func.max(age_secs), func.min(age_secs)).where(
        TrialRow.done_at > select(utc_now(offset_secs=-within_secs)).scalar_subquery()
    )
    if target_id is not None:
        statement = statement.join(SearchRow, SearchRow.id == TrialRow.search_id).where(
            SearchRow.target_id == target_id
        )
    count, oldest, newest = session.execute(statement).one()
    return Rate(trials=count, secs=(oldest - newest) if count else 0.0)


def _trial(row: TrialRow) -> Trial:
    values: dict[str, Any] = {
        name: getattr(row, name)
        for name in (
            *("id", "job_id", "task_id", "search_id", "round", "trace_hash", "program_hash"),
            *("predicted_score", "attempt", "run_secs", "latency_secs", "error", "stage_secs", "worker_id"),
            *("device_class", "tvm_version", "created_at", "done_at"),
        )
    }
    return Trial(
        purpose=Purpose.of(row.purpose),
        state=TrialState.of(row.state),
        outcome=None if row.outcome is None else Outcome.of(row.outcome),
        **values,
    )
