"""Attempts: the deliveries of a trial, from its dispatch to its outcome, each step one compare-and-set.

An outcome counts only for (trial, attempt, dispatched): a late, doubled or reordered one changes nothing.
Locks are always taken in the order search, job, trial.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Update, case, select, update
from sqlalchemy.orm import Session

from db.clock import utc_now
from db.rowcount import changed
from db.states import JobState, Outcome, Purpose, TrialState, WorkerRole
from db.tables import JobRow, SearchRow, TrialRow


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """An outcome, ready for its row."""

    trial_id: int
    attempt: int
    worker_id: str
    outcome: Outcome
    run_secs: Sequence[float] | None
    latency_secs: float | None
    incumbent_run_secs: Sequence[float] | None
    error: str | None
    stage_secs: Mapping[str, float]
    device_class: str
    tvm_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialPlace:
    """Where a trial belongs."""

    id: int
    search_id: int
    job_id: str
    purpose: Purpose
    target_id: int
    owner: str
    #: Of its search, as it was when this was read: it only ever falls.
    best_latency_secs: float | None
    task_id: int
    #: Of a trial that is built and not yet measured.
    stage_secs: Mapping[str, float]


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
    built = {WorkerRole.BUILD: TrialRow.built.is_(None), WorkerRole.MEASURE: TrialRow.built.is_not(None)}
    ready = (
        select(TrialRow.id, TrialRow.started_attempts)
        .where(
            TrialRow.search_id == search_id,
            TrialRow.job_id == job_id,
            TrialRow.purpose == purpose,
            TrialRow.state == TrialState.QUEUED,
            _running_job(job_id),
            *([built[role]] if role in built else []),
        )
        .order_by(TrialRow.started_attempts, TrialRow.round, TrialRow.id)
        .limit(limit)
        .with_for_update(of=TrialRow)
    )
    rows = session.execute(ready).all()
    fresh = [row.id for row in rows if not row.started_attempts]
    ids = fresh or [row.id for row in rows[:1]]
    if not ids:
        return []
    session.execute(
        update(TrialRow)
        .where(TrialRow.id.in_(ids), TrialRow.state == TrialState.QUEUED)
        .values(
            state=TrialState.DISPATCHED,
            attempt=TrialRow.attempt + 1,
            chunk_id=chunk_id,
            worker_id=None,
            role=role,
            dispatched_at=utc_now(),
            deadline_at=utc_now(offset_secs=deadline_secs),
        )
        .execution_options(synchronize_session=False)
    )
    return _taken(session, ids, chunk_id)


def places(session: Session, trial_ids: Collection[int]) -> list[TrialPlace]:
    columns = (TrialRow.id, TrialRow.search_id, TrialRow.job_id, TrialRow.task_id, TrialRow.purpose)
    statement = (
        select(
            *columns,
            TrialRow.stage_secs,
            TrialRow.built.is_not(None).label("is_built"),
            SearchRow.target_id,
            SearchRow.best_latency_secs,
            JobRow.owner,
        )
        .join(SearchRow, SearchRow.id == TrialRow.search_id)
        .join(JobRow, JobRow.id == TrialRow.job_id)
        .where(TrialRow.id.in_(trial_ids))
    )
    return [
        TrialPlace(
            id=row.id,
            search_id=row.search_id,
            job_id=row.job_id,
            task_id=row.task_id,
            purpose=Purpose(row.purpose),
            target_id=row.target_id,
            owner=row.owner,
            best_latency_secs=row.best_latency_secs,
            stage_secs=(row.stage_secs or {}) if row.is_built else {},
        )
        for row in session.execute(statement)
    ]


def record_started(session: Session, trial_id: int, *, attempt: int, worker_id: str) -> bool:
    """A worker began this attempt; a doubled notice counts once."""
    statement = _of_attempt(trial_id, attempt).where(TrialRow.worker_id.is_(None))
    started = {"worker_id": worker_id, "started_attempts": TrialRow.started_attempts + 1}
    return changed(session, statement.values(started)) == 1


def record_outcome(session: Session, measured: Measured) -> bool:
    """Compare-and-set on (trial, attempt, dispatched); False for a late or doubled outcome."""
    statement = _of_attempt(measured.trial_id, measured.attempt).values(
        state=TrialState.DONE,
        worker_id=measured.worker_id,
        outcome=measured.outcome,
        run_secs=_floats(measured.run_secs),
        latency_secs=measured.latency_secs,
        incumbent_run_secs=_floats(measured.incumbent_run_secs),
        error=measured.error,
        stage_secs=dict(measured.stage_secs),
        device_class=measured.device_class,
        tvm_version=measured.tvm_version,
        built=None,
        done_at=utc_now(),
    )
    return changed(session, statement) == 1


def note_latency(session: Session, place: TrialPlace, latency_secs: float) -> None:
    """An OK trial's latency: the search's untuned one, or, where it is an improvement, its best."""
    search = update(SearchRow).where(SearchRow.id == place.search_id)
    if place.purpose is Purpose.BASELINE:
        changed(session, search.values(untuned_latency_secs=latency_secs))
    elif place.purpose is Purpose.SEARCH and _may_improve(place, latency_secs):
        worse = SearchRow.best_latency_secs.is_(None) | (SearchRow.best_latency_secs > latency_secs)
        best = search.where(worse).values(best_latency_secs=latency_secs, best_trial_id=place.id)
        if changed(session, best):
            changed(session, update(TrialRow).where(TrialRow.id == place.id).values(improved=True))


def _may_improve(place: TrialPlace, latency_secs: float) -> bool:
    """Most do not, and need no statement; of those that may, the row decides."""
    return place.best_latency_secs is None or latency_secs < place.best_latency_secs


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


def _taken(session: Session, ids: Collection[int], chunk_id: str) -> list[TakenTrial]:
    statement = (
        select(
            TrialRow.id,
            TrialRow.attempt,
            TrialRow.task_id,
            TrialRow.purpose,
            TrialRow.trace_z,
            TrialRow.incumbent_record_id,
            TrialRow.built,
        )
        .where(TrialRow.id.in_(ids), TrialRow.chunk_id == chunk_id)
        .order_by(TrialRow.id)
    )
    return [
        TakenTrial(
            id=row.id,
            attempt=row.attempt,
            task_id=row.task_id,
            purpose=Purpose(row.purpose),
            trace_z=row.trace_z or b"",
            incumbent_record_id=row.incumbent_record_id,
            built=row.built,
        )
        for row in session.execute(statement)
    ]


def _of_attempt(trial_id: int, attempt: int) -> Update:
    return update(TrialRow).where(
        TrialRow.id == trial_id, TrialRow.attempt == attempt, TrialRow.state == TrialState.DISPATCHED
    )


def _running_job(job_id: str) -> Any:
    return (
        select(JobRow.id)
        .where(JobRow.id == job_id, JobRow.state == JobState.RUNNING, JobRow.desired_state == "running")
        .exists()
    )


def _floats(secs: Sequence[float] | None) -> list[float] | None:
    return None if secs is None else list(secs)
