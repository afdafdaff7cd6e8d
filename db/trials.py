"""Trials come to be, are cancelled, taken over, asked for again; deliveries are in db/attempts.py.

Locks are always taken in the order search, job, trial.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import case, func, insert, select, update
from sqlalchemy.orm import Session

from db.clock import utc_now
from db.rowcount import changed
from db.states import OPEN_TRIALS, Outcome, Purpose, TrialState
from db.tables import SearchRow, TaskRow, TrialRow


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
    #: Of a search trial: the newest round whose results its own had seen.
    learnt_round: int | None = None


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
                "learnt_round": trial.learnt_round,
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
            TrialRow.state.not_in(OPEN_TRIALS),
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


def cancel_trials(session: Session, job_id: str) -> int:
    """Cancel what is open of a job; outcomes that come later match no row."""
    statement = (
        update(TrialRow)
        .where(TrialRow.job_id == job_id, TrialRow.state.in_(OPEN_TRIALS))
        .values(state=TrialState.CANCELLED, done_at=utc_now())
    )
    return changed(session, statement)


def cancel_task_trials(session: Session, task_id: int) -> int:
    """The same for one task that ended."""
    statement = (
        update(TrialRow)
        .where(TrialRow.task_id == task_id, TrialRow.state.in_(OPEN_TRIALS))
        .values(state=TrialState.CANCELLED, done_at=utc_now())
    )
    return changed(session, statement)


def call_back(session: Session, job_id: str) -> int:
    """Dispatched trials of a job that pauses wait in the queue again; no worker was lost over them."""
    started = case((TrialRow.worker_id.is_not(None), 1), else_=0)
    statement = (
        update(TrialRow)
        .where(TrialRow.job_id == job_id, TrialRow.state == TrialState.DISPATCHED)
        .values(
            state=TrialState.QUEUED,
            started_attempts=TrialRow.started_attempts - started,
            chunk_id=None,
            worker_id=None,
            deadline_at=None,
        )
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
        "built",
        "done_at",
    )
    return {"state": TrialState.QUEUED, "started_attempts": 0} | dict.fromkeys(unset)
