"""How lookups ended, by hour and target, and which workloads were missed. The API adds to it.

What is counted is what reached the service: a client's caches answer the rest.
"""

from collections.abc import Mapping
from dataclasses import astuple, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import case, delete, func, select
from sqlalchemy.orm import Session

from db.caller_tables import LookupMissRow, LookupTrafficRow
from db.clock import secs_since, utc_now
from db.conflict import insert_or_add
from db.states import RecordState
from db.tables import RecordRow, SearchRow, TargetRow, TaskRow, WorkloadRow
from db.workloads import same_hash

#: Missed workloads that are kept; those asked for longest ago go first.
MAX_MISSES = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MissKey:
    shash: str
    target_key: str
    tvm_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Lookups of a target, or of an hour."""

    hits: int = 0
    near: int = 0
    misses: int = 0

    @property
    def asked(self) -> int:
        return self.hits + self.near + self.misses


@dataclass(frozen=True, slots=True, kw_only=True)
class HourOfTraffic:
    hour: datetime
    traffic: Traffic


@dataclass(frozen=True, slots=True, kw_only=True)
class Missed:
    """A workload that lookups ask for and that has no record."""

    key: MissKey
    target: dict[str, Any]
    count: int
    #: Seconds since it was last asked for.
    age_secs: float
    #: Of a task of this workload; None where the service has never seen its module.
    name: str | None
    workload_id: int | None
    args: list[dict[str, Any]]
    #: A task of a job that has not ended tunes it.
    tuning: bool


def add_traffic(
    session: Session,
    traffic: Mapping[str, Traffic],
    missed: Mapping[MissKey, int],
    targets: Mapping[str, Mapping[str, Any]],
    *,
    hour: datetime,
) -> None:
    """Add what one process counted, by target's key; `targets` holds the canonical dict of each.

    Rows are locked in one order, whatever the order in which they were counted: others add to them, too.
    """
    for target_key, counts in sorted(traffic.items()):
        insert_or_add(
            session,
            LookupTrafficRow,
            {"hour": hour, "target_key": target_key},
            {"hits": counts.hits, "near": counts.near, "misses": counts.misses},
        )
    now = session.scalars(select(utc_now())).one()
    for key in sorted(missed, key=astuple):
        insert_or_add(
            session,
            LookupMissRow,
            {"shash": key.shash, "target_key": key.target_key, "tvm_version": key.tvm_version},
            {"count": missed[key]},
            fixed={"target": dict(targets[key.target_key]), "first_at": now},
            newest={"last_at": now},
        )
    if missed:
        _forget(session)


def traffic_by_hour(session: Session, *, within_secs: float) -> list[HourOfTraffic]:
    """Summed over targets, the oldest hour first; hours without a lookup are not there."""
    statement = (
        select(
            LookupTrafficRow.hour,
            func.sum(LookupTrafficRow.hits),
            func.sum(LookupTrafficRow.near),
            func.sum(LookupTrafficRow.misses),
        )
        .where(LookupTrafficRow.hour > utc_now(offset_secs=-within_secs))
        .group_by(LookupTrafficRow.hour)
        .order_by(LookupTrafficRow.hour)
    )
    return [
        HourOfTraffic(hour=row[0], traffic=Traffic(hits=int(row[1]), near=int(row[2]), misses=int(row[3])))
        for row in session.execute(statement)
    ]


def most_missed(session: Session, *, limit: int) -> list[Missed]:
    """Those that still have no record, the most asked for first."""
    miss = LookupMissRow
    has_record = (
        select(RecordRow.id)
        .join(WorkloadRow, WorkloadRow.id == RecordRow.workload_id)
        .join(TargetRow, TargetRow.id == RecordRow.target_id)
        .where(
            WorkloadRow.shash == miss.shash,
            TargetRow.key == miss.target_key,
            RecordRow.tvm_version == miss.tvm_version,
            RecordRow.state == RecordState.PUBLISHED,
        )
        .exists()
    )
    statement = (
        select(miss, secs_since(miss.last_at).label("age_secs"))
        .where(~has_record)
        .order_by(miss.count.desc(), miss.last_at.desc())
        .limit(limit)
    )
    return [_missed(session, row, age_secs) for row, age_secs in session.execute(statement)]


def missed_workload(session: Session, key: MissKey) -> tuple[str, dict[str, Any], str | None] | None:
    """Of a missed workload its module's JSON text, the canonical target and a task's name.

    None where no module of it is known.
    """
    row = session.get(LookupMissRow, (key.shash, key.target_key, key.tvm_version))
    known = same_hash(session, tvm_version=key.tvm_version, shash=key.shash)
    if row is None or not known:
        return None
    return known[0].module, row.target, session.scalars(select(task_name(known[0].id))).one()


def task_name(workload_id: Any) -> Any:
    """The name of a task of a workload, as a subquery; a module's `main` only where there is no other."""
    telling = case((TaskRow.name != "main", TaskRow.name))
    return (
        select(func.coalesce(func.min(telling), func.min(TaskRow.name)))
        .where(TaskRow.workload_id == workload_id)
        .scalar_subquery()
    )


def _missed(session: Session, row: LookupMissRow, age_secs: float) -> Missed:
    workload = session.execute(
        select(WorkloadRow.id, WorkloadRow.args, task_name(WorkloadRow.id))
        .where(WorkloadRow.shash == row.shash, WorkloadRow.tvm_version == row.tvm_version)
        .order_by(WorkloadRow.ordinal)
    ).first()
    tuning = (
        select(TaskRow.id)
        .join(SearchRow, SearchRow.id == TaskRow.search_id)
        .join(TargetRow, TargetRow.id == SearchRow.target_id)
        .where(
            TaskRow.workload_id == (workload[0] if workload else None),
            TargetRow.key == row.target_key,
            TaskRow.finished_at.is_(None),
        )
    )
    return Missed(
        key=MissKey(shash=row.shash, target_key=row.target_key, tvm_version=row.tvm_version),
        target=row.target,
        count=row.count,
        age_secs=age_secs,
        name=workload[2] if workload else None,
        workload_id=workload[0] if workload else None,
        args=workload[1] if workload else [],
        tuning=workload is not None and session.scalars(tuning.limit(1)).first() is not None,
    )


def _forget(session: Session) -> None:
    """Drop misses beyond the limit, those asked for longest ago."""
    limit = select(LookupMissRow.last_at).order_by(LookupMissRow.last_at.desc()).offset(MAX_MISSES).limit(1)
    oldest = session.scalars(limit).first()
    if oldest is not None:
        session.execute(delete(LookupMissRow).where(LookupMissRow.last_at <= oldest))
