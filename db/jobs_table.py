"""The list of jobs as a table: filtered, searched, sorted and paged by the database. Read only."""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import ColumnElement, func, or_, select
from sqlalchemy.orm import Session

from db.jobs import Job, jobs_of
from db.states import JobState
from db.tables import JobRow


class JobSort(StrEnum):
    """A `-` before the name in an address turns the order round."""

    CREATED = "created"
    NAME = "name"
    STATE = "state"
    OWNER = "owner"
    TARGET = "target"
    PRIORITY = "priority"
    PROGRESS = "progress"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    states: Collection[JobState] = ()
    #: Part of a name, an owner, a target or an id; case does not matter.
    text: str = ""
    sort: JobSort = JobSort.CREATED
    descending: bool = True


_COLUMNS: dict[JobSort, ColumnElement[Any]] = {
    JobSort.CREATED: JobRow.created_at.expression,
    JobSort.NAME: func.lower(JobRow.name),
    JobSort.STATE: JobRow.state.expression,
    JobSort.OWNER: func.lower(JobRow.owner),
    JobSort.TARGET: func.lower(JobRow.target_name),
    JobSort.PRIORITY: JobRow.priority.expression,
    JobSort.PROGRESS: JobRow.trials_reserved * 1.0 / JobRow.max_trials,
}


def page_of_jobs(session: Session, wanted: JobFilter, *, limit: int, offset: int) -> list[Job]:
    column = _COLUMNS[wanted.sort]
    order = column.desc() if wanted.descending else column.asc()
    statement = select(JobRow.id).where(*_conditions(wanted)).order_by(order, JobRow.id)
    ids = session.scalars(statement.limit(limit).offset(offset)).all()
    found = {job.id: job for job in jobs_of(session, ids)}
    return [found[job_id] for job_id in ids]


def count_jobs(session: Session, wanted: JobFilter) -> int:
    return session.scalars(select(func.count()).select_from(JobRow).where(*_conditions(wanted))).one()


def count_by_state(session: Session) -> dict[JobState, int]:
    statement = select(JobRow.state, func.count()).group_by(JobRow.state)
    return {JobState(row[0]): row[1] for row in session.execute(statement)}


def _conditions(wanted: JobFilter) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if wanted.states:
        conditions.append(JobRow.state.in_(wanted.states))
    if wanted.text:
        columns = (JobRow.name, JobRow.owner, JobRow.target_name, JobRow.id)
        conditions.append(or_(*(column.icontains(wanted.text, autoescape=True) for column in columns)))
    return conditions
