"""Targets in canonical form, found by their key. checks.target makes both; this room only stores them."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from db.conflict import insert_unless_there
from db.farm_tables import WorkerRow
from db.states import WorkerRole, WorkerState
from db.tables import TargetRow
from db.workers import heard_within


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
    """How many workers of each target time and can be fed, by target id: alive, not in quarantine.

    One that only measures counts where somebody builds.
    """
    statement = (
        select(WorkerRow.target_id, WorkerRow.role, func.count())
        .where(
            WorkerRow.state.not_in((WorkerState.LEFT, WorkerState.QUARANTINED)),
            heard_within(dead_after_secs),
        )
        .group_by(WorkerRow.target_id, WorkerRow.role)
    )
    counts: dict[int, Counter[str]] = defaultdict(Counter)
    for target_id, role, count in session.execute(statement):
        counts[target_id][role] = count
    return {target_id: _timing(roles) for target_id, roles in counts.items()}


def _timing(roles: Mapping[str, int]) -> int:
    both, measure = roles.get(WorkerRole.BOTH, 0), roles.get(WorkerRole.MEASURE, 0)
    return both + (measure if roles.get(WorkerRole.BUILD) else 0)
