"""What is published for a target, all of it, for those who take it along. Read only."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from db.states import RecordState
from db.tables import RecordRow, TargetRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """Records of one target and one TVM version."""

    target_key: str
    target: dict[str, Any]
    tvm_version: str
    #: Workloads that have one.
    workloads: int


def published_targets(session: Session) -> list[Published]:
    statement = (
        select(
            TargetRow.key,
            TargetRow.canonical,
            RecordRow.tvm_version,
            func.count(RecordRow.workload_id.distinct()),
        )
        .join(TargetRow, TargetRow.id == RecordRow.target_id)
        .where(RecordRow.state == RecordState.PUBLISHED)
        .group_by(TargetRow.id, TargetRow.key, TargetRow.canonical, RecordRow.tvm_version)
        .order_by(TargetRow.id, RecordRow.tvm_version.desc())
    )
    return [
        Published(target_key=key, target=canonical, tvm_version=version, workloads=workloads)
        for key, canonical, version, workloads in session.execute(statement)
    ]


def published_ids(session: Session, *, target_key: str, tvm_version: str) -> Sequence[int]:
    """The newest record of each workload, in the order in which they were published."""
    newest = newest_of_each(target_key=target_key, tvm_version=tvm_version).subquery()
    return session.scalars(select(newest.c.id).order_by(newest.c.id)).all()


def newest_of_each(*, target_key: str, tvm_version: str) -> Select[int]:
    """A statement: `id` of the published record that counts, of each workload."""
    return (
        select(func.max(RecordRow.id).label("id"))
        .join(TargetRow, TargetRow.id == RecordRow.target_id)
        .where(
            TargetRow.key == target_key,
            RecordRow.tvm_version == tvm_version,
            RecordRow.state == RecordState.PUBLISHED,
        )
        .group_by(RecordRow.workload_id)
    )
