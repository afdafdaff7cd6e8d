"""The list of jobs as a table: filtered, searched, sorted and paged by the database. Read only."""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import ColumnElement, Select, case, func, or_, select
from sqlalchemy.orm import Session

from db.jobs import Job, jobs_of
from db.states import JobState, RecordState
from db.tables import JobRow, RecordRow, SearchRow, TaskRow


class JobSort(StrEnum):
    """A `-` before the name in an address turns the order round."""

    CREATED = "created"
    NAME = "name"
    STATE = "state"
    OWNER = "owner"
    TARGET = "target"
    PRIORITY = "priority"
    PROGRESS = "progress"
    SPEEDUP = "speedup"
    LATENCY = "latency"


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

#: What stands in tasks and searches.
_MEASURED = (JobSort.SPEEDUP, JobSort.LATENCY)


def page_of_jobs(session: Session, wanted: JobFilter, *, limit: int, offset: int) -> list[Job]:
    if wanted.sort in _MEASURED:
        statement, column = _by_latency(wanted.sort)
    else:
        statement, column = select(JobRow.id), _COLUMNS[wanted.sort]
    order = column.desc() if wanted.descending else column.asc()
    statement = statement.where(*_conditions(wanted)).order_by(order.nulls_last(), JobRow.id)
    ids = session.scalars(statement.limit(limit).offset(offset)).all()
    found = {job.id: job for job in jobs_of(session, ids)}
    return [found[job_id] for job_id in ids]


def count_jobs(session: Session, wanted: JobFilter) -> int:
    return session.scalars(select(func.count()).select_from(JobRow).where(*_conditions(wanted))).one()


def count_by_state(session: Session) -> dict[JobState, int]:
    statement = select(JobRow.state, func.count()).group_by(JobRow.state)
    return {JobState.of(row[0]): row[1] for row in session.execute(statement)}


def _by_latency(sort: JobSort) -> tuple[Select[str], ColumnElement[Any]]:
    """Jobs with their weighted latency, or its ratio to the untuned one; null where a task has none yet."""
    record = (
        select(RecordRow.latency_secs)
        .where(
            RecordRow.workload_id == SearchRow.workload_id,
            RecordRow.target_id == SearchRow.target_id,
            RecordRow.tvm_version == SearchRow.tvm_version,
            RecordRow.state == RecordState.PUBLISHED,
        )
        .order_by(RecordRow.id.desc())
        .limit(1)
        .correlate(SearchRow)
        .scalar_subquery()
    )
    untuned, measured = SearchRow.untuned_latency_secs, SearchRow.best_latency_secs
    best = func.coalesce(case((untuned < measured, untuned), else_=measured), record)
    weighted = (
        select(
            TaskRow.job_id,
            case((func.count(best) == func.count(), func.sum(TaskRow.weight * best))).label("best"),
            case((func.count(untuned) == func.count(), func.sum(TaskRow.weight * untuned))).label("untuned"),
        )
        .join(SearchRow, SearchRow.id == TaskRow.search_id)
        .group_by(TaskRow.job_id)
        .subquery()
    )
    column = weighted.c.best if sort == JobSort.LATENCY else weighted.c.untuned / weighted.c.best
    return select(JobRow.id).outerjoin(weighted, weighted.c.job_id == JobRow.id), column


def _conditions(wanted: JobFilter) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if wanted.states:
        conditions.append(JobRow.state.in_(wanted.states))
    if wanted.text:
        columns = (JobRow.name, JobRow.owner, JobRow.target_name, JobRow.id)
        conditions.append(or_(*(column.icontains(wanted.text, autoescape=True) for column in columns)))
    return conditions
