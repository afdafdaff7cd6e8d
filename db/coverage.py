"""What is tuned for what: workloads against targets, as far as anybody asked. Read only."""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from db.lookup_traffic import task_name
from db.records_table import workload_conditions
from db.states import RecordState
from db.tables import RecordRow, SearchRow, TargetRow, TaskRow, WorkloadRow


@dataclass(frozen=True, slots=True, kw_only=True)
class CoveredTarget:
    key: str
    canonical: dict[str, Any]
    #: Workloads that jobs asked for, and those of them with a published record.
    workloads: int
    with_record: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A workload on a target that jobs asked for."""

    latency_secs: float | None
    record_id: int | None
    #: The trial that found it.
    trial_id: int | None
    #: A task that has not ended tunes it.
    tuning: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverageLine:
    workload_id: int
    shash: str
    name: str | None
    args: list[dict[str, Any]]
    #: Names of its blocks.
    operations: str | None
    flops: float
    #: By target key; a target that nobody asked for is not there.
    cells: dict[str, Cell] = field(default_factory=dict)


def covered_targets(session: Session) -> list[CoveredTarget]:
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
        CoveredTarget(key=row[0], canonical=row[1], workloads=row[2], with_record=row[3])
        for row in session.execute(statement)
    ]


def coverage_lines(session: Session, text: str, *, limit: int, offset: int = 0) -> list[CoverageLine]:
    """Workloads that fit the text, those that were asked for last first."""
    newest = func.max(SearchRow.id)
    statement = (
        select(
            WorkloadRow.id,
            WorkloadRow.shash,
            task_name(WorkloadRow.id).label("name"),
            WorkloadRow.args,
            WorkloadRow.operations,
            WorkloadRow.flops,
        )
        .join(SearchRow, SearchRow.workload_id == WorkloadRow.id)
        .where(*workload_conditions(text))
        .group_by(WorkloadRow.id)
        .order_by(newest.desc())
        .limit(limit)
        .offset(offset)
    )
    found = session.execute(statement).all()
    cells = _cells(session, [row.id for row in found])
    return [
        CoverageLine(
            workload_id=row.id,
            shash=row.shash,
            name=row.name,
            args=row.args,
            operations=row.operations,
            flops=row.flops,
            cells=cells[row.id],
        )
        for row in found
    ]


def _cells(session: Session, workload_ids: Collection[int]) -> dict[int, dict[str, Cell]]:
    newest = (
        select(RecordRow.workload_id, RecordRow.target_id, func.max(RecordRow.id).label("record_id"))
        .where(RecordRow.workload_id.in_(workload_ids), RecordRow.state == RecordState.PUBLISHED)
        .group_by(RecordRow.workload_id, RecordRow.target_id)
        .subquery()
    )
    open_tasks = (
        select(func.count())
        .where(TaskRow.search_id == SearchRow.id, TaskRow.finished_at.is_(None))
        .correlate(SearchRow)
        .scalar_subquery()
    )
    statement = (
        select(
            SearchRow.workload_id, TargetRow.key, RecordRow.latency_secs, RecordRow.id, RecordRow.trial_id,
            func.sum(open_tasks),
        )
        .join(TargetRow, TargetRow.id == SearchRow.target_id)
        .outerjoin(
            newest,
            (newest.c.workload_id == SearchRow.workload_id) & (newest.c.target_id == SearchRow.target_id),
        )
        .outerjoin(RecordRow, RecordRow.id == newest.c.record_id)
        .where(SearchRow.workload_id.in_(workload_ids))
        .group_by(
            SearchRow.workload_id, TargetRow.key, RecordRow.latency_secs, RecordRow.id, RecordRow.trial_id
        )
    )  # fmt: skip
    cells: dict[int, dict[str, Cell]] = defaultdict(dict)
    for workload_id, key, latency_secs, record_id, trial_id, open_count in session.execute(statement):
        cells[workload_id][key] = Cell(
            latency_secs=latency_secs, record_id=record_id, trial_id=trial_id, tuning=bool(open_count)
        )
    return cells
