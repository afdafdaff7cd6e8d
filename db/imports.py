"""Imported records on their way out of quarantine: which to measure again, and what became of them.

An import stays quarantined for ever: what is published is a record of the farm's own, made of the trial that
measured the import's trace again. Nothing here judges times.
"""

import hashlib
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import ColumnElement, and_, exists, func, or_, select, update
from sqlalchemy.orm import Session, aliased

from db.states import Outcome, Purpose, RecordState, TaskState, TrialState
from db.tables import RecordRow, TaskRow, TrialRow, WorkloadRow
from db.tasks import SearchKey

#: The strategy of a search that measures what was imported, and suggests nothing itself.
IMPORTED = "imported"


class Verification(StrEnum):
    """How far an imported record is."""

    #: Nobody has asked the farm to measure it.
    WAITING = "waiting"
    MEASURING = "measuring"
    #: It did not build, did not run, or its outputs were wrong.
    REFUTED = "refuted"
    #: It measured well, and what stands published is faster, or nothing was published yet.
    MEASURED = "measured"
    #: A record was published of it.
    PUBLISHED = "published"


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """A quarantined record to be measured again."""

    record_id: int
    workload_id: int
    shash: str
    tvm_version: str
    #: A name of the workload, where a task has one.
    name: str | None
    parameters: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedTrace:
    trace_hash: str
    #: zlib of the trace's JSON text.
    trace_z: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What is known of an import today."""

    state: Verification
    outcome: Outcome | None = None
    error: str | None = None
    #: Median of the farm's own run_secs.
    latency_secs: float | None = None
    #: The record that was published of it.
    published_id: int | None = None


def unverified(
    session: Session,
    *,
    target_id: int,
    tvm_version: str,
    shashes: Collection[str],
    top: int,
    limit: int,
) -> list[Import]:
    """Of each workload the `top` imports that claim to be fastest and that nobody measures or has measured.

    Of all workloads where `shashes` is empty.
    """
    rank = (
        func.row_number()
        .over(partition_by=RecordRow.workload_id, order_by=(RecordRow.latency_secs, RecordRow.id))
        .label("rank")
    )
    waiting = select(RecordRow.id, RecordRow.workload_id, rank).where(
        RecordRow.target_id == target_id,
        RecordRow.tvm_version == tvm_version,
        RecordRow.state == RecordState.QUARANTINED,
        or_(RecordRow.verify_search_id.is_(None), _given_up()),
    )
    if shashes:
        waiting = waiting.where(
            RecordRow.workload_id.in_(select(WorkloadRow.id).where(WorkloadRow.shash.in_(shashes)))
        )
    ranked = waiting.subquery()
    name = select(func.min(TaskRow.name)).where(TaskRow.workload_id == WorkloadRow.id).scalar_subquery()
    statement = (
        select(ranked.c.id, WorkloadRow, name)
        .join(WorkloadRow, WorkloadRow.id == ranked.c.workload_id)
        .where(ranked.c.rank <= top)
        .order_by(WorkloadRow.id, ranked.c.rank)
        .limit(limit)
    )
    return [
        Import(
            record_id=record_id,
            workload_id=workload.id,
            shash=workload.shash,
            tvm_version=workload.tvm_version,
            name=named,
            parameters=len(workload.args),
        )
        for record_id, workload, named in session.execute(statement)
    ]


def _given_up() -> ColumnElement[bool]:
    """The job that had asked was cancelled before the import was measured."""
    trial = exists().where(
        TrialRow.search_id == RecordRow.verify_search_id,
        TrialRow.trace_hash == RecordRow.trace_hash,
        TrialRow.purpose == Purpose.SEARCH,
        TrialRow.state != TrialState.CANCELLED,
    )
    task = exists().where(
        TaskRow.search_id == RecordRow.verify_search_id,
        TaskRow.state.in_((TaskState.QUEUED, TaskState.RUNNING)),
    )
    return and_(~trial, ~task)


def search_key(key: SearchKey, record_ids: Sequence[int]) -> SearchKey:
    """The search that measures exactly these imports, under the rest of `key`."""
    space = {IMPORTED: list(record_ids)}
    text = json.dumps(space, separators=(",", ":"))
    return SearchKey(
        workload_id=key.workload_id,
        target_id=key.target_id,
        target_key=key.target_key,
        tvm_version=key.tvm_version,
        space=space,
        space_hash=hashlib.sha256(text.encode()).hexdigest(),
        strategy=IMPORTED,
        seed=0,
        policy=key.policy,
        options=key.options,
        isolation_key=key.isolation_key,
    )


def mark_asked(session: Session, record_ids: Collection[int], *, search_id: int) -> None:
    session.execute(
        update(RecordRow)
        .where(RecordRow.id.in_(record_ids), RecordRow.state == RecordState.QUARANTINED)
        .values(verify_search_id=search_id)
        .execution_options(synchronize_session=False)
    )


def traces_to_verify(session: Session, search_id: int) -> list[ImportedTrace]:
    """What a search of imports is to measure, those that claim to be fastest first."""
    statement = (
        select(RecordRow.trace_hash, RecordRow.trace_z)
        .where(RecordRow.verify_search_id == search_id, RecordRow.state == RecordState.QUARANTINED)
        .order_by(RecordRow.latency_secs, RecordRow.id)
    )
    rows = session.execute(statement)
    return [ImportedTrace(trace_hash=row.trace_hash, trace_z=row.trace_z) for row in rows]


def verifications(session: Session, record_ids: Collection[int]) -> dict[int, Progress]:
    """By record, of those that are quarantined."""
    own = aliased(RecordRow)
    published = (
        select(func.max(own.id)).where(own.trial_id == TrialRow.id).correlate(TrialRow).scalar_subquery()
    )
    statement = (
        select(RecordRow.id, RecordRow.verify_search_id, TrialRow, published)
        .outerjoin(
            TrialRow,
            (TrialRow.search_id == RecordRow.verify_search_id)
            & (TrialRow.trace_hash == RecordRow.trace_hash)
            & (TrialRow.purpose == Purpose.SEARCH),
        )
        .where(RecordRow.id.in_(record_ids), RecordRow.state == RecordState.QUARANTINED)
    )
    return {
        record_id: _progress(asked=search_id is not None, trial=trial, published_id=published_id)
        for record_id, search_id, trial, published_id in session.execute(statement)
    }


def _progress(*, asked: bool, trial: TrialRow | None, published_id: int | None) -> Progress:
    if not asked:
        return Progress(state=Verification.WAITING)
    if trial is None or trial.state in (TrialState.QUEUED, TrialState.DISPATCHED):
        return Progress(state=Verification.MEASURING)
    outcome = None if trial.outcome is None else Outcome.of(trial.outcome)
    state = Verification.REFUTED
    if published_id is not None:
        state = Verification.PUBLISHED
    elif outcome is Outcome.OK or outcome is Outcome.CUT_OFF:
        state = Verification.MEASURED
    elif trial.state == TrialState.CANCELLED:
        state = Verification.WAITING
    return Progress(
        state=state,
        outcome=outcome,
        error=trial.error,
        latency_secs=trial.latency_secs,
        published_id=published_id,
    )
