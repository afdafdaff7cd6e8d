"""Records as a table: searched and paged, without the modules and traces that a consumer needs. Read only."""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Text, cast, exists, func, or_, select
from sqlalchemy.orm import Session, aliased

from db.lookup_traffic import task_name
from db.states import RecordState
from db.tables import RecordRow, SearchRow, TargetRow, TaskRow, WorkloadRow

#: `128x768`, `128, 768`, `[1,32,28,28]`, `float32[8]`
_SHAPE = re.compile(r"(?:[a-z]+\d*(?:_\w+)?)?\s*\[?\s*\d+(?:\s*[x×,]\s*\d+)*\s*\]?", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordLine:
    id: int
    shash: str
    #: Of the tasks of this workload, one's name; None where none is left.
    name: str | None
    args: list[dict[str, Any]]
    #: Names of its blocks.
    operations: str | None
    flops: float
    target_key: str
    target: dict[str, Any]
    tvm_version: str
    state: RecordState
    latency_secs: float
    device_class: str
    trial_id: int | None
    created_at: datetime


def page_of_records(
    session: Session, text: str, *, limit: int, offset: int, current: bool = False
) -> list[RecordLine]:
    """Newest first; the text as in `workload_conditions`, or part of a device class.

    `current`: only what a lookup would get.
    """
    statement = (
        select(
            RecordRow.id, WorkloadRow.shash, task_name(RecordRow.workload_id).label("name"),
            WorkloadRow.args, WorkloadRow.operations, WorkloadRow.flops, TargetRow.key, TargetRow.canonical,
            RecordRow.tvm_version, RecordRow.state, RecordRow.latency_secs, RecordRow.device_class,
            RecordRow.trial_id, RecordRow.created_at,
        )
        .join(WorkloadRow, WorkloadRow.id == RecordRow.workload_id)
        .join(TargetRow, TargetRow.id == RecordRow.target_id)
        .where(*_conditions(text, current=current))
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
            operations=row.operations,
            flops=row.flops,
            target_key=row.key,
            target=row.canonical,
            tvm_version=row.tvm_version,
            state=RecordState.of(row.state),
            latency_secs=row.latency_secs,
            device_class=row.device_class,
            trial_id=row.trial_id,
            created_at=row.created_at,
        )
        for row in session.execute(statement)
    ]


def count_records(session: Session, text: str, *, current: bool = False) -> int:
    statement = (
        select(func.count())
        .select_from(RecordRow)
        .join(WorkloadRow, WorkloadRow.id == RecordRow.workload_id)
        .where(*_conditions(text, current=current))
    )
    return session.scalars(statement).one()


def newest_ids(session: Session) -> tuple[int | None, int | None]:
    """Of the newest record and the newest search: what is new since has others."""
    records = select(func.max(RecordRow.id)).scalar_subquery()
    searches = select(func.max(SearchRow.id)).scalar_subquery()
    record, search = session.execute(select(records, searches)).one()
    return record, search


def workload_conditions(text: str) -> list[ColumnElement[bool]]:
    """Workloads by part of a task's or a block's name, a hash's start, or a shape: `128x768`, `[1, 8]`."""
    if not text:
        return []
    named = select(TaskRow.workload_id).where(TaskRow.name.icontains(text, autoescape=True))
    fits = [
        WorkloadRow.id.in_(named),
        WorkloadRow.operations.icontains(text, autoescape=True),
        WorkloadRow.shash.startswith(text.lower(), autoescape=True),
    ]
    return [or_(*fits, *_of_shape(text))]


def _conditions(text: str, *, current: bool) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if text:
        device = RecordRow.device_class.icontains(text, autoescape=True)
        conditions.append(or_(*workload_conditions(text), device))
    if current:
        conditions.append(_current())
    return conditions


def _current() -> ColumnElement[bool]:
    """The newest published record of its workload, target and TVM version: none that is newer is there.

    Asked row by row, so that a page of the newest reads no more than it shows.
    """
    newer = aliased(RecordRow)
    replaced = exists().where(
        newer.workload_id == RecordRow.workload_id,
        newer.target_id == RecordRow.target_id,
        newer.tvm_version == RecordRow.tvm_version,
        newer.state == RecordState.PUBLISHED,
        newer.id > RecordRow.id,
    )
    return (RecordRow.state == RecordState.PUBLISHED) & ~replaced


def _of_shape(text: str) -> list[ColumnElement[bool]]:
    """Dimensions in this order, whole numbers, anywhere in one argument's shape."""
    if not _SHAPE.fullmatch(text):
        return []
    dims = ", ".join(re.findall(r"\d+", text.partition("[")[2] or text))
    column = cast(WorkloadRow.args, Text)
    return [column.contains(f"{before}{dims}{after}") for before in ("[", ", ") for after in ("]", ",")]
