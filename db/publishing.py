"""Records: what stands published, what might beat it, and the write that publishes.

The newest published row of a (workload, target, TVM version) is the current one. Nothing here judges times.
"""

import statistics
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from db.searches import Search
from db.states import Outcome, Purpose, RecordState, TrialState
from db.tables import RecordRow, TrialRow, WorkloadRow

_MEASURED_FIRST = (Purpose.SEARCH, Purpose.BASELINE)
_CURRENT = (RecordState.PUBLISHED, RecordState.VERIFIED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Incumbent:
    """The current record of a search's key."""

    record_id: int
    trace_hash: str
    latency_secs: float
    device_class: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A search trial, or the baseline, that measured OK."""

    trial_id: int
    task_id: int
    trace_hash: str
    program_hash: str | None
    latency_secs: float
    device_class: str
    #: It is the untuned module.
    baseline: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """A confirm trial, whatever became of it."""

    trial_id: int
    trace_hash: str
    state: TrialState
    round: int
    outcome: Outcome | None
    latency_secs: float | None
    #: Of the incumbent, measured between; None where there was no incumbent.
    incumbent_latency_secs: float | None
    incumbent_record_id: int | None
    #: It already made a record.
    published: bool


def lock_workload(session: Session, workload_id: int) -> None:
    """Publishing for one workload happens one after the other, whatever search it comes from."""
    statement = select(WorkloadRow.id).where(WorkloadRow.id == workload_id)
    session.execute(statement.with_for_update(key_share=True)).all()


def incumbent(session: Session, search: Search) -> Incumbent | None:
    statement = (
        select(RecordRow.id, RecordRow.trace_hash, RecordRow.latency_secs, RecordRow.device_class)
        .where(
            RecordRow.workload_id == search.workload_id,
            RecordRow.target_id == search.target_id,
            RecordRow.tvm_version == search.tvm_version,
            RecordRow.state.in_(_CURRENT),
        )
        .order_by(RecordRow.id.desc())
        .limit(1)
    )
    row = session.execute(statement).one_or_none()
    if row is None:
        return None
    return Incumbent(
        record_id=row.id,
        trace_hash=row.trace_hash,
        latency_secs=row.latency_secs,
        device_class=row.device_class,
    )


def contenders(session: Session, search_id: int, *, limit: int) -> list[Contender]:
    """The fastest OK search trials, best first, the baseline among them."""
    statement = (
        select(
            TrialRow.id.label("trial_id"),
            TrialRow.task_id,
            TrialRow.trace_hash,
            TrialRow.program_hash,
            TrialRow.latency_secs,
            TrialRow.device_class,
            TrialRow.purpose,
        )
        .where(
            TrialRow.search_id == search_id,
            TrialRow.state == TrialState.DONE,
            TrialRow.purpose.in_(_MEASURED_FIRST),
            TrialRow.outcome == Outcome.OK,
            TrialRow.latency_secs.is_not(None),
        )
        .order_by(TrialRow.latency_secs, TrialRow.id)
        .limit(limit)
    )
    return [
        Contender(
            trial_id=row.trial_id,
            task_id=row.task_id,
            trace_hash=row.trace_hash,
            program_hash=row.program_hash,
            latency_secs=float(row.latency_secs or 0.0),
            device_class=row.device_class or "",
            baseline=row.purpose == Purpose.BASELINE,
        )
        for row in session.execute(statement)
    ]


def confirmations(session: Session, search_id: int) -> list[Confirmation]:
    statement = (
        select(
            *(TrialRow.id, TrialRow.trace_hash, TrialRow.state, TrialRow.round, TrialRow.outcome),
            *(TrialRow.latency_secs, TrialRow.incumbent_run_secs, TrialRow.incumbent_record_id),
            RecordRow.id.label("record_id"),
        )
        .outerjoin(RecordRow, RecordRow.confirm_trial_id == TrialRow.id)
        .where(TrialRow.search_id == search_id, TrialRow.purpose == Purpose.CONFIRM)
        .order_by(TrialRow.id)
    )
    return [_confirmation(row) for row in session.execute(statement)]


def contender_trace(session: Session, trial_id: int) -> bytes:
    """Zlib of the trace's JSON text."""
    return session.scalars(select(TrialRow.trace_z).where(TrialRow.id == trial_id)).one() or b""


def record_traces(session: Session, record_ids: Collection[int]) -> dict[int, bytes]:
    """Zlib of the traces' JSON texts, by record."""
    statement = select(RecordRow.id, RecordRow.trace_z).where(RecordRow.id.in_(record_ids))
    return {row.id: row.trace_z for row in session.execute(statement)}


def publish(session: Session, search: Search, *, confirm_trial_id: int) -> int:
    """Make the record of a confirm trial; the caller holds the workload's lock and has compared the times."""
    confirm = session.execute(
        select(TrialRow.trace_z, TrialRow.trace_hash, TrialRow.run_secs, TrialRow.device_class).where(
            TrialRow.id == confirm_trial_id
        )
    ).one()
    # The untuned program may have been imported, too: then it is a search trial beside the baseline.
    found = (
        select(TrialRow.id)
        .where(
            TrialRow.search_id == search.id,
            TrialRow.purpose.in_(_MEASURED_FIRST),
            TrialRow.trace_hash == confirm.trace_hash,
        )
        .order_by(TrialRow.purpose == Purpose.BASELINE)
        .limit(1)
    )
    run_secs = list(confirm.run_secs or ())
    values = {
        "workload_id": search.workload_id,
        "target_id": search.target_id,
        "tvm_version": search.tvm_version,
        "state": RecordState.PUBLISHED,
        "trace_z": confirm.trace_z,
        "trace_hash": confirm.trace_hash,
        "run_secs": run_secs,
        "latency_secs": statistics.median(run_secs),
        "trial_id": session.scalars(found).first(),
        "confirm_trial_id": confirm_trial_id,
        "policy": dict(search.policy),
        "device_class": confirm.device_class or "",
    }
    return session.scalars(insert(RecordRow).values(**values).returning(RecordRow.id)).one()


def _confirmation(trial: Any) -> Confirmation:
    incumbent_secs = trial.incumbent_run_secs
    return Confirmation(
        trial_id=trial.id,
        trace_hash=trial.trace_hash,
        state=TrialState.of(trial.state),
        round=trial.round,
        outcome=None if trial.outcome is None else Outcome.of(trial.outcome),
        latency_secs=trial.latency_secs,
        incumbent_latency_secs=statistics.median(incumbent_secs) if incumbent_secs else None,
        incumbent_record_id=trial.incumbent_record_id,
        published=trial.record_id is not None,
    )
