"""Trials that did not measure ok, for those who ask why. Read only; grouping by message is the caller's."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, func, select
from sqlalchemy.orm import Session

from db.clock import secs_since
from db.states import Outcome, Purpose
from db.tables import TaskRow, TrialRow

#: A cut-off is no failure: its time is known to be long.
FAILED = tuple(outcome for outcome in Outcome if outcome not in (Outcome.OK, Outcome.CUT_OFF))
_ERROR_CHARS = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    trial_id: int
    job_id: str
    task_id: int
    task_name: str
    outcome: Outcome
    #: Its first 2000 characters.
    error: str
    worker_id: str | None
    age_secs: float | None


def newest_failures(session: Session, *, job_id: str | None, limit: int) -> list[Failure]:
    """Of a job, or of all; newest first."""
    return _failures(session, _query().where(*_of(job_id)).limit(limit))


def newest_failure_ids(session: Session, *, job_id: str | None, limit: int) -> Sequence[int]:
    """Their trials, newest first; an index alone tells them, where messages take reading wide rows."""
    statement = select(TrialRow.id).where(*_of(job_id)).order_by(TrialRow.id.desc()).limit(limit)
    return session.scalars(statement).all()


def read_failures(session: Session, trial_ids: Collection[int]) -> list[Failure]:
    """Newest first."""
    return _failures(session, _query().where(TrialRow.id.in_(trial_ids)))


def _query() -> Select[Any]:
    return (
        select(
            TrialRow.id,
            TrialRow.job_id,
            TrialRow.task_id,
            TaskRow.name,
            TrialRow.outcome,
            func.substr(TrialRow.error, 1, _ERROR_CHARS).label("error"),
            TrialRow.worker_id,
            secs_since(TrialRow.done_at).label("age_secs"),
        )
        .join(TaskRow, TaskRow.id == TrialRow.task_id)
        .order_by(TrialRow.id.desc())
    )


def _failures(session: Session, statement: Select[Any]) -> list[Failure]:
    return [
        Failure(
            trial_id=row.id,
            job_id=row.job_id,
            task_id=row.task_id,
            task_name=row.name,
            outcome=Outcome.of(row.outcome),
            error=row.error or "",
            worker_id=row.worker_id,
            age_secs=row.age_secs,
        )
        for row in session.execute(statement)
    ]


def count_failures(session: Session, *, job_id: str | None) -> dict[Outcome, int]:
    statement = select(TrialRow.outcome, func.count()).where(*_of(job_id)).group_by(TrialRow.outcome)
    return {Outcome.of(str(row[0])): row[1] for row in session.execute(statement)}


def last_errors(session: Session, job_id: str) -> dict[int, tuple[int, str]]:
    """Of each task of a job that has failures: the newest one's trial and message."""
    newest = select(func.max(TrialRow.id)).where(*_of(job_id)).group_by(TrialRow.task_id)
    statement = select(
        TrialRow.task_id, TrialRow.id, TrialRow.outcome, func.substr(TrialRow.error, 1, _ERROR_CHARS)
    ).where(TrialRow.id.in_(newest))
    return {row[0]: (row[1], row[3] or row[2] or "") for row in session.execute(statement)}


def _of(job_id: str | None) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = [
        TrialRow.outcome.in_(FAILED),
        TrialRow.purpose == Purpose.SEARCH,
    ]
    if job_id is not None:
        conditions.append(TrialRow.job_id == job_id)
    return conditions
