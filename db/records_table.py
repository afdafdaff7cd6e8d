"""Records as a table: searched and paged, without the modules and traces that a consumer needs. Read only."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, func, or_, select
from sqlalchemy.orm import Session

from db.states import RecordState
from db.tables import RecordRow, SearchRow, TargetRow, TaskRow, WorkloadRow


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordLine:
    id: int
    shash: str
    #: Of the tasks of this workload, one's name; None where none is left.
    name: str | None
    args: list[dict[str, Any]]
    flops: float
    target_key: str
    target: dict[str, Any]
    tvm_version: str
    state: RecordState
    latency_secs: float
    device_class: str
    trial_id: int | None
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Workloads that were asked for, and of them those with a published record, for a target."""

    target_key: str
    target: dict[str, Any]
    workloads: int
    with_record: int


def page_of_records(session: Session, text: str, *, limit: int, offset: int) -> list[RecordLine]:
    """Newest first; the text is part of a task's name, the start of a hash, or of a device class."""
    name = (
        select(func.min(TaskRow.name))
        .where(TaskRow.workload_id == RecordRow.workload_id)
        .correlate(RecordRow)
        .scalar_subquery()
    )
    statement = (
        select(
            RecordRow.id, WorkloadRow.shash, name.label("name"), WorkloadRow.args, WorkloadRow.flops,
            TargetRow.key, TargetRow.canonical, RecordRow.tvm_version, RecordRow.state,
            RecordRow.latency_secs, RecordRow.device_class, RecordRow.trial_id, RecordRow.created_at,
        )
        .join(WorkloadRow, WorkloadRow.id == RecordRow.workload_id)
        .join(TargetRow, TargetRow.id == RecordRow.target_id)
        .where(*_conditions(text))
        .order_by(RecordRow.id.desc())
        .limit(limit)
        .offset(offset)
    )  # fmt: skip
    return [
        RecordLine(
            id=row.id,
            shash=row.shash,
            name=row.name,
            args=row.args,
            flops=row.flops,
            target_key=row.key,
            target=row.canonical,
            tvm_version=row.tvm_version,
            state=RecordState(row.state),
            latency_secs=row.latency_secs,
            device_class=row.device_class,
            trial_id=row.trial_id,
            created_at=row.created_at,
        )
        for row in session.execute(statement)
    ]


def count_records(session: Session, text: str) -> int:
    statement = (
        select(func.count())
        .select_from(RecordRow)
        .join(WorkloadRow, WorkloadRow.id == RecordRow.workload_id)
        .where(*_conditions(text))
    )
    return session.scalars(statement).one()


def coverage(session: Session) -> list[Coverage]:
    """Over the workloads that tasks of jobs for the target ask for."""
    published = (
        select(RecordRow.workload_id, RecordRow.target_id)
        .where(RecordRow.state == RecordState.PUBLISHED)
        .distinct()
        .subquery()
    )
    statement = (
        select(
            TargetRow.key,
            TargetRow.canonical,
            func.count(SearchRow.workload_id.distinct()),
            func.count(published.c.workload_id.distinct()),
        )
        .select_from(SearchRow)
        .join(TargetRow, TargetRow.id == SearchRow.target_id)
        .outerjoin(
            published,
            (published.c.workload_id == SearchRow.workload_id)
            & (published.c.target_id == SearchRow.target_id),
        )
        .group_by(TargetRow.id, TargetRow.key, TargetRow.canonical)
        .order_by(TargetRow.id)
    )
    return [
        Coverage(target_key=row[0], target=row[1], workloads=row[2], with_record=row[3])
        for row in session.execute(statement)
    ]


def _conditions(text: str) -> list[ColumnElement[bool]]:
    if not text:
        return []
    named = select(TaskRow.workload_id).where(TaskRow.name.icontains(text, autoescape=True))
    return [
        or_(
            RecordRow.workload_id.in_(named),
            WorkloadRow.shash.startswith(text.lower(), autoescape=True),
            RecordRow.device_class.icontains(text, autoescape=True),
        )
    ]
