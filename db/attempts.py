"""Attempts: the deliveries of a trial, from its dispatch to its end where nobody told an outcome.

Each step is one compare-and-set; what workers report is in db/reports.py. Locks are always taken in the order
search, job, trial.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, Update, bindparam, case, select, update
from sqlalchemy.orm import Session

from db.clock import utc_now
from db.rowcount import changed
from db.states import JobState, Outcome, Purpose, TrialState, WorkerRole
from db.tables import JobRow, TrialRow


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenTrial:
    """A trial that was just dispatched."""

    id: int
    attempt: int
    task_id: int
    purpose: Purpose
    trace_z: bytes
    incumbent_record_id: int | None
    #: What a build worker made of it (workers.messages.Built as JSON).
    built: Mapping[str, Any] | None


def dispatch(
    session: Session,
    *,
    search_id: int,
    job_id: str,
    purpose: Purpose,
    limit: int,
    chunk_id: str,
    deadline_secs: float,
    role: WorkerRole = WorkerRole.BOTH,
) -> list[TakenTrial]:
    """Move queued trials of a running job into a chunk; one that a worker started before goes alone.

    Workers that build get what is not built, those that measure get what is; the others get all.
    """
    kind = {"search": search_id, "job": job_id, "purpose": purpose, "most": limit}
    rows = session.execute(_READY[role], kind).all()
    taken = [row for row in rows if not row.started_attempts] or rows[:1]
    if not taken:
        return []
    dispatched = (
        update(TrialRow)
        .where(TrialRow.id.in_([row.id for row in taken]), TrialRow.state == TrialState.QUEUED)
        .values(
            state=TrialState.DISPATCHED,
            attempt=TrialRow.attempt + 1,
            chunk_id=chunk_id,
            worker_id=None,
            role=role,
            dispatched_at=utc_now(),
            deadline_at=utc_now(offset_secs=deadline_secs),
        )
    )
    changed(session, dispatched)
    return [
        TakenTrial(
            id=row.id,
            attempt=row.attempt + 1,
            task_id=row.task_id,
            purpose=purpose,
            trace_z=row.trace_z or b"",
            incumbent_record_id=row.incumbent_record_id,
            built=row.built,
        )
        for row in sorted(taken, key=lambda row: row.id)
    ]


def ring_again(session: Session, trial_id: int, *, attempt: int, counts: bool = True) -> bool:
    """Back to the queue; the next dispatch is another attempt.

    `counts`: where this one was started, it stays among those that were lost.
    """
    forgiven = 0 if counts else case((TrialRow.worker_id.is_not(None), 1), else_=0)
    statement = _of_attempt(trial_id, attempt).values(
        state=TrialState.QUEUED,
        started_attempts=TrialRow.started_attempts - forgiven,
        chunk_id=None,
        worker_id=None,
        deadline_at=None,
    )
    return changed(session, statement) == 1


def give_up(session: Session, trial_id: int, *, attempt: int, error: str) -> bool:
    """The farm could not measure it, several started attempts long."""
    statement = _of_attempt(trial_id, attempt).values(
        state=TrialState.FAILED, outcome=Outcome.WORKER_LOST, error=error, done_at=utc_now()
    )
    return changed(session, statement) == 1


def _of_attempt(trial_id: int, attempt: int) -> Update:
    return update(TrialRow).where(
        TrialRow.id == trial_id, TrialRow.attempt == attempt, TrialRow.state == TrialState.DISPATCHED
    )


def _ready(role: WorkerRole) -> Select[Any]:
    """Queued trials of one kind, of a running job, that workers of a role may have."""
    built = {WorkerRole.BUILD: TrialRow.built.is_(None), WorkerRole.MEASURE: TrialRow.built.is_not(None)}
    running = select(JobRow.id).where(
        JobRow.id == bindparam("job"), JobRow.state == JobState.RUNNING, JobRow.desired_state == "running"
    )
    return (
        select(
            *(TrialRow.id, TrialRow.attempt, TrialRow.started_attempts, TrialRow.task_id),
            *(TrialRow.trace_z, TrialRow.incumbent_record_id, TrialRow.built),
        )
        .where(
            TrialRow.search_id == bindparam("search"),
            TrialRow.job_id == bindparam("job"),
            TrialRow.purpose == bindparam("purpose"),
            TrialRow.state == TrialState.QUEUED,
            running.exists(),
            *([built[role]] if role in built else []),
        )
        .order_by(TrialRow.started_attempts, TrialRow.round, TrialRow.id)
        .limit(bindparam("most"))
        .with_for_update(of=TrialRow)
    )


# Made once: each chunk asks one of them.
_READY = {role: _ready(role) for role in WorkerRole}
