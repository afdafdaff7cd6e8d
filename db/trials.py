"""Trials: the state machine's rows, each transition one compare-and-set.

queued → dispatched → done | failed | cancelled; dispatched → queued when the reconciler rings again. An
outcome counts only for (trial, attempt, dispatched): a late, doubled or reordered one changes nothing.
Locks are always taken in the order search, job, trial.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Update, func, insert, select, update
from sqlalchemy.orm import Session

from db.clock import secs_since, utc_now
from db.rowcount import changed
from db.states import JobState, Outcome, Purpose, TrialState
from db.tables import JobRow, SearchRow, TaskRow, TrialRow

_OPEN = (TrialState.QUEUED, TrialState.DISPATCHED)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTrial:
    """A candidate that becomes a trial."""

    job_id: str
    task_id: int
    purpose: Purpose
    round: int
    trace_hash: str
    trace_z: bytes
    program_hash: str | None = None
    features_z: bytes | None = None
    predicted_score: float | None = None
    incumbent_record_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenTrial:
    """A trial that was just dispatched."""

    id: int
    attempt: int
    purpose: Purpose
    trace_z: bytes
    incumbent_record_id: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchedTrial:
    id: int
    attempt: int
    started_attempts: int
    job_id: str
    search_id: int
    target_id: int
    #: The worker that reported this attempt started.
    worker_id: str | None
    age_secs: float
    overdue: bool


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


def insert_trials(session: Session, search_id: int, trials: Sequence[NewTrial]) -> None:
    """Queue new trials; the caller holds the search's row and has left out what is known."""
    if not trials:
        return
    session.execute(
        insert(TrialRow),
        [
            {
                "search_id": search_id,
                "job_id": trial.job_id,
                "task_id": trial.task_id,
                "purpose": trial.purpose,
                "state": TrialState.QUEUED,
                "round": trial.round,
                "trace_hash": trial.trace_hash,
                "trace_z": trial.trace_z,
                "program_hash": trial.program_hash,
                "features_z": trial.features_z,
                "predicted_score": trial.predicted_score,
                "incumbent_record_id": trial.incumbent_record_id,
            }
            for trial in trials
        ],
    )


def ask_again(session: Session, search_id: int, trial: NewTrial) -> bool:
    """A closed trial of the same trace and purpose is measured once more, for the task that wants it now.

    For baselines and confirmations, which are uncharged. False where there is no such row.
    """
    statement = (
        update(TrialRow)
        .where(
            TrialRow.search_id == search_id,
            TrialRow.purpose == trial.purpose,
            TrialRow.trace_hash == trial.trace_hash,
            TrialRow.state.not_in(_OPEN),
        )
        .values(
            _cleared()
            | {
                "job_id": trial.job_id,
                "task_id": trial.task_id,
                "round": trial.round,
                "incumbent_record_id": trial.incumbent_record_id,
            }
        )
    )
    return changed(session, statement) == 1


def repeat_rejected_baselines(session: Session, search_ids: Collection[int], *, job_id: str) -> None:
    """A search that failed for want of a reference tries it once more, for a new job."""
    task = select(func.min(TaskRow.id)).where(
        TaskRow.job_id == job_id, TaskRow.search_id == TrialRow.search_id
    )
    rejected = update(TrialRow).where(
        TrialRow.search_id.in_(search_ids),
        TrialRow.purpose == Purpose.BASELINE,
        TrialRow.outcome == Outcome.REJECTED,
    )
    changed(session, rejected.values(_cleared() | {"job_id": job_id, "task_id": task.scalar_subquery()}))


def cancelled_ids(session: Session, search_id: int, *, limit: int) -> list[tuple[int, str, int]]:
    """(trial, job, task) of cancelled search trials, oldest first, locked."""
    statement = (
        select(TrialRow.id, TrialRow.job_id, TrialRow.task_id)
        .where(
            TrialRow.search_id == search_id,
            TrialRow.purpose == Purpose.SEARCH,
            TrialRow.state == TrialState.CANCELLED,
        )
        .order_by(TrialRow.id)
        .limit(limit)
        .with_for_update()
    )
    return [(row.id, row.job_id, row.task_id) for row in session.execute(statement)]


def take_over(session: Session, trial_id: int, *, job_id: str, task_id: int, round_: int) -> bool:
    """A cancelled search trial passes to the task that wants it now."""
    return (
        changed(
            session,
            update(TrialRow)
            .where(TrialRow.id == trial_id, TrialRow.state == TrialState.CANCELLED)
            .values(_cleared() | {"job_id": job_id, "task_id": task_id, "round": round_}),
        )
        == 1
    )


def dispatch(
    session: Session,
    *,
    search_id: int,
    job_id: str,
    purpose: Purpose,
    limit: int,
    chunk_id: str,
    deadline_secs: float,
) -> list[TakenTrial]:
    """Move queued trials of a running job into a chunk; one that a worker started before goes alone."""
    ready = (
        select(TrialRow.id, TrialRow.started_attempts)
        .where(
            TrialRow.search_id == search_id,
            TrialRow.job_id == job_id,
            TrialRow.purpose == purpose,
            TrialRow.state == TrialState.QUEUED,
            _running_job(job_id),
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
            dispatched_at=utc_now(),
            deadline_at=utc_now(offset_secs=deadline_secs),
        )
        .execution_options(synchronize_session=False)
    )
    return _taken(session, ids, chunk_id)


def dispatched_trials(session: Session) -> list[DispatchedTrial]:
    """All trials that are under way, with ages in database time."""
    statement = (
        select(
            TrialRow.id,
            TrialRow.attempt,
            TrialRow.started_attempts,
            TrialRow.job_id,
            TrialRow.search_id,
            SearchRow.target_id,
            TrialRow.worker_id,
            secs_since(TrialRow.dispatched_at).label("age_secs"),
            (TrialRow.deadline_at < utc_now()).label("overdue"),
        )
        .join(SearchRow, SearchRow.id == TrialRow.search_id)
        .where(TrialRow.state == TrialState.DISPATCHED)
        .order_by(TrialRow.id)
    )
    return [DispatchedTrial(**row._mapping) for row in session.execute(statement)]  # noqa: SLF001 - SQLAlchemy's public name


def outstanding(session: Session) -> dict[int, int]:
    """By target: how many trials are dispatched."""
    statement = (
        select(SearchRow.target_id, func.count())
        .select_from(TrialRow)
        .join(SearchRow, SearchRow.id == TrialRow.search_id)
        .where(TrialRow.state == TrialState.DISPATCHED)
        .group_by(SearchRow.target_id)
    )
    return {target_id: count for target_id, count in session.execute(statement)}  # noqa: C416 - rows, not pairs


def recent_stage_secs(session: Session, target_id: int, *, limit: int) -> list[Mapping[str, float]]:
    """Seconds by stage of the target's newest measured trials."""
    statement = (
        select(TrialRow.stage_secs)
        .join(SearchRow, SearchRow.id == TrialRow.search_id)
        .where(SearchRow.target_id == target_id, TrialRow.state == TrialState.DONE)
        .order_by(TrialRow.id.desc())
        .limit(limit)
    )
    return [stage_secs for stage_secs in session.scalars(statement) if stage_secs]


def places(session: Session, trial_ids: Collection[int]) -> list[TrialPlace]:
    statement = select(TrialRow.id, TrialRow.search_id, TrialRow.job_id, TrialRow.purpose).where(
        TrialRow.id.in_(trial_ids)
    )
    return [
        TrialPlace(id=row.id, search_id=row.search_id, job_id=row.job_id, purpose=Purpose(row.purpose))
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
        done_at=utc_now(),
    )
    return changed(session, statement) == 1


def note_latency(session: Session, place: TrialPlace, latency_secs: float) -> None:
    """An OK trial's latency: the search's untuned one, or its best if it is better."""
    search = update(SearchRow).where(SearchRow.id == place.search_id)
    if place.purpose is Purpose.BASELINE:
        changed(session, search.values(untuned_latency_secs=latency_secs))
    elif place.purpose is Purpose.SEARCH:
        worse = SearchRow.best_latency_secs.is_(None) | (SearchRow.best_latency_secs > latency_secs)
        changed(session, search.where(worse).values(best_latency_secs=latency_secs, best_trial_id=place.id))


def ring_again(session: Session, trial_id: int, *, attempt: int) -> bool:
    """Back to the queue; the next dispatch is another attempt."""
    statement = _of_attempt(trial_id, attempt).values(
        state=TrialState.QUEUED, chunk_id=None, worker_id=None, deadline_at=None
    )
    return changed(session, statement) == 1


def give_up(session: Session, trial_id: int, *, attempt: int, error: str) -> bool:
    """The farm could not measure it, several started attempts long."""
    statement = _of_attempt(trial_id, attempt).values(
        state=TrialState.FAILED, outcome=Outcome.WORKER_LOST, error=error, done_at=utc_now()
    )
    return changed(session, statement) == 1


def cancel_trials(session: Session, job_id: str) -> int:
    """Cancel what is open of a job; outcomes that come later match no row."""
    statement = (
        update(TrialRow)
        .where(TrialRow.job_id == job_id, TrialRow.state.in_(_OPEN))
        .values(state=TrialState.CANCELLED, done_at=utc_now())
    )
    return changed(session, statement)


def cancel_task_trials(session: Session, task_id: int) -> int:
    """The same for one task that ended."""
    statement = (
        update(TrialRow)
        .where(TrialRow.task_id == task_id, TrialRow.state.in_(_OPEN))
        .values(state=TrialState.CANCELLED, done_at=utc_now())
    )
    return changed(session, statement)


def call_back(session: Session, job_id: str) -> int:
    """Dispatched trials of a job that pauses wait in the queue again."""
    statement = (
        update(TrialRow)
        .where(TrialRow.job_id == job_id, TrialRow.state == TrialState.DISPATCHED)
        .values(state=TrialState.QUEUED, chunk_id=None, worker_id=None, deadline_at=None)
    )
    return changed(session, statement)


def cancel_uncharged(session: Session, job_id: str) -> int:
    """Baselines and confirmations of a job that pauses: another task of the search may ask for them again."""
    statement = (
        update(TrialRow)
        .where(
            TrialRow.job_id == job_id,
            TrialRow.state == TrialState.QUEUED,
            TrialRow.purpose != Purpose.SEARCH,
        )
        .values(state=TrialState.CANCELLED, done_at=utc_now())
    )
    return changed(session, statement)


def join_newest_round(session: Session, job_id: str) -> None:
    """Trials that waited while their job was paused join their search's newest round.

    The search may have gone on for another job meanwhile: a result may not appear in a round that was seen.
    """
    newest = select(SearchRow.rounds - 1).where(SearchRow.id == TrialRow.search_id).scalar_subquery()
    session.execute(
        update(TrialRow)
        .where(
            TrialRow.job_id == job_id,
            TrialRow.state == TrialState.QUEUED,
            TrialRow.purpose == Purpose.SEARCH,
            TrialRow.round < newest,
        )
        .values(round=newest)
        .execution_options(synchronize_session=False)
    )


def _taken(session: Session, ids: Collection[int], chunk_id: str) -> list[TakenTrial]:
    statement = (
        select(
            TrialRow.id, TrialRow.attempt, TrialRow.purpose, TrialRow.trace_z, TrialRow.incumbent_record_id
        )
        .where(TrialRow.id.in_(ids), TrialRow.chunk_id == chunk_id)
        .order_by(TrialRow.id)
    )
    return [
        TakenTrial(
            id=row.id,
            attempt=row.attempt,
            purpose=Purpose(row.purpose),
            trace_z=row.trace_z or b"",
            incumbent_record_id=row.incumbent_record_id,
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


def _cleared() -> dict[str, Any]:
    """A row as if never measured, save its attempts, which go on counting."""
    unset = (
        "chunk_id",
        "dispatched_at",
        "deadline_at",
        "outcome",
        "run_secs",
        "latency_secs",
        "incumbent_run_secs",
        "error",
        "stage_secs",
        "worker_id",
        "device_class",
        "done_at",
    )
    return {"state": TrialState.QUEUED, "started_attempts": 0} | dict.fromkeys(unset)


def _floats(secs: Sequence[float] | None) -> list[float] | None:
    return None if secs is None else list(secs)
