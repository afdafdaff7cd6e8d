"""Jobs: inserts, reads and intents. States move in db/progress.py, by the tuner service alone."""

import base64
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, and_, or_, select, update
from sqlalchemy.orm import Session

from db.clock import secs_since
from db.rowcount import changed
from db.states import DesiredState, JobState
from db.tables import JobRow, TargetRow

ENDED = tuple(state for state in JobState if state.ended)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    name: str
    owner: str
    target_id: int
    target_name: str
    priority: int
    max_trials: int
    max_trials_per_task: int | None
    strategy: str
    seed: int
    options: Mapping[str, Any]
    warnings: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    id: str
    name: str
    owner: str
    state: JobState
    desired_state: DesiredState
    target_name: str
    target_key: str
    target: dict[str, Any]
    priority: int
    max_trials: int
    max_trials_per_task: int | None
    strategy: str
    seed: int
    options: dict[str, Any]
    warnings: list[dict[str, Any]]
    error: str | None
    revision: int
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    #: Seconds since started_at; None before.
    running_secs: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a page of the list ends: newest first."""

    created_at: datetime
    id: str


def new_job_id() -> str:
    """`job-` and 16 base32 characters, 80 random bits."""
    return "job-" + base64.b32encode(secrets.token_bytes(10)).decode().lower()


def insert_job(session: Session, new: NewJob) -> str:
    job_id = new_job_id()
    session.add(
        JobRow(
            id=job_id,
            name=new.name,
            owner=new.owner,
            target_id=new.target_id,
            target_name=new.target_name,
            priority=new.priority,
            max_trials=new.max_trials,
            max_trials_per_task=new.max_trials_per_task,
            strategy=new.strategy,
            seed=new.seed,
            options=dict(new.options),
            warnings=[dict(warning) for warning in new.warnings],
        )
    )
    session.flush()
    return job_id


def read_job(session: Session, job_id: str) -> Job | None:
    return next(iter(_jobs(session, _query().where(JobRow.id == job_id))), None)


def jobs_of(session: Session, job_ids: Collection[str]) -> list[Job]:
    """The jobs of some ids, in no order."""
    return _jobs(session, _query().where(JobRow.id.in_(job_ids)))


def list_jobs(
    session: Session, *, limit: int, after: Place | None, states: Collection[JobState] = (), owner: str | None
) -> list[Job]:
    """Newest first."""
    statement = _query().order_by(JobRow.created_at.desc(), JobRow.id.desc()).limit(limit)
    if after is not None:
        earlier = and_(JobRow.created_at == after.created_at, JobRow.id < after.id)
        statement = statement.where(or_(JobRow.created_at < after.created_at, earlier))
    if states:
        statement = statement.where(JobRow.state.in_(states))
    if owner is not None:
        statement = statement.where(JobRow.owner == owner)
    return _jobs(session, statement)


def revisions(session: Session, job_ids: Collection[str]) -> dict[str, int]:
    statement = select(JobRow.id, JobRow.revision).where(JobRow.id.in_(job_ids))
    return {found[0]: found[1] for found in session.execute(statement)}


def ask_state(session: Session, job_id: str, desired: DesiredState) -> bool:
    """Write the user's intent. False where the job has ended, or is to be cancelled and this is not that."""
    statement = update(JobRow).where(JobRow.id == job_id, JobRow.state.not_in(ENDED))
    if desired != DesiredState.CANCELLED:
        statement = statement.where(JobRow.desired_state != DesiredState.CANCELLED)
    return changed(session, statement.values(desired_state=desired, revision=JobRow.revision + 1)) == 1


def change_job(session: Session, job_id: str, changes: Mapping[str, Any]) -> bool:
    """Change name, priority or budget of a job that has not ended. The budget stays above what is spent."""
    statement = update(JobRow).where(JobRow.id == job_id, JobRow.state.not_in(ENDED))
    if "max_trials" in changes:
        statement = statement.where(JobRow.trials_reserved <= changes["max_trials"])
    return changed(session, statement.values(**changes, revision=JobRow.revision + 1)) == 1


def _query() -> Select[JobRow, str, dict[str, Any], float]:
    return select(
        JobRow, TargetRow.key, TargetRow.canonical, secs_since(JobRow.started_at).label("running_secs")
    ).join(TargetRow, TargetRow.id == JobRow.target_id)


def _jobs(session: Session, statement: Select[JobRow, str, dict[str, Any], float]) -> list[Job]:
    return [
        Job(
            id=row.id,
            name=row.name,
            owner=row.owner,
            state=JobState.of(row.state),
            desired_state=DesiredState.of(row.desired_state),
            target_name=row.target_name,
            target_key=key,
            target=canonical,
            priority=row.priority,
            max_trials=row.max_trials,
            max_trials_per_task=row.max_trials_per_task,
            strategy=row.strategy,
            seed=row.seed,
            options=row.options,
            warnings=row.warnings,
            error=row.error,
            revision=row.revision,
            created_at=row.created_at,
            started_at=row.started_at,
            finished_at=row.finished_at,
            running_secs=running_secs,
        )
        for row, key, canonical, running_secs in session.execute(statement)
    ]
