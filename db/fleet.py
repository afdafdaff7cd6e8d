"""The fleet as the tuner service sees it: which workers live, by database time, and what they hold."""

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from db.clock import secs_since
from db.farm_tables import WorkerRow
from db.states import WorkerRole, WorkerState
from db.workers import heard_within

#: A worker that was silent for so long holds nothing that anybody waits for.
_FORGOTTEN_SECS = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetWorker:
    id: str
    target_id: int
    role: WorkerRole
    #: It has not left, and its heartbeat is fresh.
    alive: bool
    #: It takes new chunks.
    accepts: bool
    #: (trial, attempt) pairs of its last heartbeat.
    holding: frozenset[tuple[int, int]]
    #: Since that heartbeat.
    silent_secs: float = 0.0


def read_fleet(session: Session, *, dead_after_secs: float) -> list[FleetWorker]:
    """All workers that were heard of within a day."""
    statement = select(
        WorkerRow.id,
        WorkerRow.target_id,
        WorkerRow.role,
        WorkerRow.state,
        WorkerRow.desired_state,
        WorkerRow.holding,
        secs_since(WorkerRow.heartbeat_at).label("silent_secs"),
    ).where(heard_within(_FORGOTTEN_SECS))
    return [
        _worker(
            row.id,
            row.target_id,
            role=row.role,
            state=row.state,
            desired_state=row.desired_state,
            holding=row.holding,
            silent_secs=row.silent_secs,
            fresh=row.silent_secs < dead_after_secs,
        )
        for row in session.execute(statement)
    ]


def _worker(
    worker_id: str,
    target_id: int,
    *,
    role: str,
    state: str,
    desired_state: str,
    holding: Iterable[Iterable[int]],
    silent_secs: float,
    fresh: bool,
) -> FleetWorker:
    alive = fresh and state != WorkerState.LEFT
    return FleetWorker(
        id=worker_id,
        target_id=target_id,
        role=WorkerRole.of(role),
        alive=alive,
        accepts=alive and state == WorkerState.RUNNING and desired_state == WorkerState.RUNNING,
        holding=frozenset((pair[0], pair[1]) for pair in map(tuple, holding)),
        silent_secs=silent_secs,
    )
