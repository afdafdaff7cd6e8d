"""Targets in canonical form, found by their key. checks.target makes both; this room only stores them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from db.clock import secs_since
from db.conflict import insert_unless_there
from db.states import WorkerState
from db.tables import TargetRow, WorkerRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    id: int
    key: str
    canonical: dict[str, Any]


def store_target(session: Session, canonical: Mapping[str, Any], *, key: str) -> Target:
    """The row of a target, made where it is new."""
    values = {"key": key, "canonical": dict(canonical)}
    insert_unless_there(session, TargetRow, values, unique=["key"])
    target = find_target(session, key)
    assert target is not None
    return target


def find_target(session: Session, key: str) -> Target | None:
    row = session.scalars(select(TargetRow).where(TargetRow.key == key)).first()
    return None if row is None else Target(id=row.id, key=row.key, canonical=row.canonical)


def workers_alive(session: Session, *, dead_after_secs: float) -> dict[int, int]:
    """How many workers of each target are alive and not in quarantine, by target id."""
    statement = (
        select(WorkerRow.target_id, func.count())
        .where(
            WorkerRow.state.not_in((WorkerState.LEFT, WorkerState.QUARANTINED)),
            secs_since(WorkerRow.heartbeat_at) <= dead_after_secs,
        )
        .group_by(WorkerRow.target_id)
    )
    return {found[0]: found[1] for found in session.execute(statement)}
