"""Records as consumers ask for them, and those that others bring. Publishing stands in db/publishing.py."""

import hashlib
import statistics
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, bindparam, func, insert, select
from sqlalchemy.orm import Session

from db.states import RecordState
from db.tables import RecordRow, TargetRow, WorkloadRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A TuningRecord with its workload's module."""

    id: int
    workload_id: int
    shash: str
    #: Canonical module JSON text.
    module: str
    #: Trace JSON text.
    trace: str
    trace_hash: str
    target_key: str
    target: dict[str, Any]
    tvm_version: str
    state: RecordState
    run_secs: list[float]
    latency_secs: float
    flops: float
    #: [{"shape": [..], "dtype": "float32"}, ..] by parameter.
    args: list[dict[str, Any]]
    policy: dict[str, Any]
    device_class: str
    trial_id: int | None
    #: Ed25519, base64; None where it is not signed.
    signature: str | None
    signing_key_id: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Near:
    """The newest published record of an asked workload for another target or TVM version."""

    record_id: int
    shash: str
    target: dict[str, Any]
    target_key: str
    tvm_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NewImports:
    """Records of one workload on one target that somebody else measured."""

    workload_id: int
    target_id: int
    tvm_version: str
    #: Trace JSON text in canonical form, and run_secs.
    traces: Sequence[tuple[str, Sequence[float]]]
    #: Who brought them, and from where.
    origin: Mapping[str, Any]


def quarantine(session: Session, new: NewImports) -> list[int | None]:
    """Ids of the imported records, which no lookup returns; None for each whose trace is known already.

    Two statements, however many there are: an import brings a million.
    """
    hashes = [hashlib.sha256(text.encode()).hexdigest() for text, _ in new.traces]
    known = set(
        session.scalars(
            select(RecordRow.trace_hash).where(
                RecordRow.workload_id == new.workload_id,
                RecordRow.target_id == new.target_id,
                RecordRow.tvm_version == new.tvm_version,
                RecordRow.trace_hash.in_(hashes),
            )
        )
    )
    fresh: dict[str, dict[str, Any]] = {}
    for hashed, (text, run_secs) in zip(hashes, new.traces, strict=True):
        if hashed not in known and hashed not in fresh:
            fresh[hashed] = _imported(new, text, hashed, run_secs)
    if not fresh:
        return [None] * len(hashes)
    inserted = session.scalars(
        insert(RecordRow).returning(RecordRow.id, sort_by_parameter_order=True), list(fresh.values())
    )
    ids = dict(zip(fresh, inserted, strict=True))
    # Of equal traces in one request the first is stored, and the others are known.
    return [ids.pop(hashed, None) for hashed in hashes]


def _imported(new: NewImports, text: str, trace_hash: str, run_secs: Sequence[float]) -> dict[str, Any]:
    return {
        "workload_id": new.workload_id,
        "target_id": new.target_id,
        "tvm_version": new.tvm_version,
        "state": RecordState.QUARANTINED,
        "trace_z": zlib.compress(text.encode(), 6),
        "trace_hash": trace_hash,
        "run_secs": list(run_secs),
        "latency_secs": statistics.median(run_secs),
        "policy": dict(new.origin),
        "device_class": "imported",
    }


def current_records(
    session: Session, *, target_key: str, tvm_version: str, shashes: Collection[str]
) -> list[Record]:
    """The newest published record of each workload: exactly this target, exactly this TVM."""
    asked = {"target_key": target_key, "tvm_version": tvm_version, "shashes": list(shashes)}
    return _records(session, _CURRENT, asked)


def near_records(session: Session, shashes: Collection[str]) -> list[Near]:
    """What there is for these workloads elsewhere, the newest first; one for each target and TVM version."""
    return [
        Near(record_id=record_id, shash=shash, target=target, target_key=key, tvm_version=tvm_version)
        for record_id, shash, target, key, tvm_version in session.execute(_NEAR, {"shashes": list(shashes)})
    ]


def anchored_records(
    session: Session, anchor_hashes: Collection[str], *, target_key: str, tvm_version: str
) -> dict[str, int]:
    """The newest record of a workload with each of these anchor blocks; exactly this target and TVM."""
    statement = (
        select(WorkloadRow.anchor_hash, func.max(RecordRow.id))
        .join(RecordRow, RecordRow.workload_id == WorkloadRow.id)
        .join(TargetRow, TargetRow.id == RecordRow.target_id)
        .where(
            WorkloadRow.anchor_hash.in_(anchor_hashes),
            WorkloadRow.tvm_version == tvm_version,
            RecordRow.tvm_version == tvm_version,
            TargetRow.key == target_key,
            RecordRow.state == RecordState.PUBLISHED,
        )
        .group_by(WorkloadRow.anchor_hash)
    )
    return {anchor: record_id for anchor, record_id in session.execute(statement) if anchor is not None}


def read_records(session: Session, record_ids: Collection[int]) -> list[Record]:
    return _records(session, _query().where(RecordRow.id.in_(record_ids)))


def read_record(session: Session, record_id: int) -> Record | None:
    return next(iter(_records(session, _query().where(RecordRow.id == record_id))), None)


def list_records(
    session: Session,
    *,
    limit: int,
    after_id: int | None,
    target_key: str | None = None,
    shash: str | None = None,
    states: Collection[RecordState] = (),
) -> list[Record]:
    """Newest first."""
    statement = _query().order_by(RecordRow.id.desc()).limit(limit)
    if after_id is not None:
        statement = statement.where(RecordRow.id < after_id)
    if target_key is not None:
        statement = statement.where(TargetRow.key == target_key)
    if shash is not None:
        statement = statement.where(WorkloadRow.shash == shash)
    if states:
        statement = statement.where(RecordRow.state.in_(states))
    return _records(session, statement)


def _query() -> Select[RecordRow, WorkloadRow, TargetRow]:
    return (
        select(RecordRow, WorkloadRow, TargetRow)
        .join(WorkloadRow, WorkloadRow.id == RecordRow.workload_id)
        .join(TargetRow, TargetRow.id == RecordRow.target_id)
    )


def _current() -> Select[RecordRow, WorkloadRow, TargetRow]:
    newest = (
        select(func.max(RecordRow.id))
        .join(WorkloadRow, WorkloadRow.id == RecordRow.workload_id)
        .join(TargetRow, TargetRow.id == RecordRow.target_id)
        .where(
            TargetRow.key == bindparam("target_key"),
            RecordRow.tvm_version == bindparam("tvm_version"),
            WorkloadRow.tvm_version == bindparam("tvm_version"),
            WorkloadRow.shash.in_(bindparam("shashes", expanding=True)),
            RecordRow.state == RecordState.PUBLISHED,
        )
        .group_by(RecordRow.workload_id)
    )
    return _query().where(RecordRow.id.in_(newest)).order_by(RecordRow.id)


def _near() -> Select[int, str, dict[str, Any], str, str]:
    newest = (
        select(
            func.max(RecordRow.id).label("record_id"),
            RecordRow.workload_id,
            RecordRow.target_id,
            RecordRow.tvm_version,
        )
        .join(WorkloadRow, WorkloadRow.id == RecordRow.workload_id)
        .where(
            WorkloadRow.shash.in_(bindparam("shashes", expanding=True)),
            RecordRow.state == RecordState.PUBLISHED,
        )
        .group_by(RecordRow.workload_id, RecordRow.target_id, RecordRow.tvm_version)
        .subquery()
    )
    return (
        select(
            newest.c.record_id, WorkloadRow.shash, TargetRow.canonical, TargetRow.key, newest.c.tvm_version
        )
        .join(WorkloadRow, WorkloadRow.id == newest.c.workload_id)
        .join(TargetRow, TargetRow.id == newest.c.target_id)
        .order_by(newest.c.record_id.desc())
    )


#: Made once: to put them together takes longer than to run them, and lookups ask thousands of times a day.
_CURRENT = _current()
_NEAR = _near()


def _records(
    session: Session,
    statement: Select[RecordRow, WorkloadRow, TargetRow],
    values: Mapping[str, Any] | None = None,
) -> list[Record]:
    return [
        Record(
            id=row.id,
            workload_id=workload.id,
            shash=workload.shash,
            module=zlib.decompress(workload.module_z).decode(),
            trace=zlib.decompress(row.trace_z).decode(),
            trace_hash=row.trace_hash,
            target_key=target.key,
            target=target.canonical,
            tvm_version=row.tvm_version,
            state=RecordState.of(row.state),
            run_secs=row.run_secs,
            latency_secs=row.latency_secs,
            flops=workload.flops,
            args=workload.args,
            policy=row.policy,
            device_class=row.device_class,
            trial_id=row.trial_id,
            signature=row.signature,
            signing_key_id=row.signing_key_id,
            created_at=row.created_at,
        )
        for row, workload, target in session.execute(statement, values)
    ]
