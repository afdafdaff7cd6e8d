"""Workloads: canonical modules, indexed by structural hash. Whether two are equal is for TVM to say."""

import hashlib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from db.conflict import insert_unless_there
from db.operations import operations
from db.tables import WorkloadRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    id: int
    shash: str
    tvm_version: str
    #: Canonical module JSON text.
    module: str
    module_sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NewWorkload:
    tvm_version: str
    shash: str
    module: str
    flops: float
    #: [{"shape": [..], "dtype": ".."}, ..]
    args: Sequence[Mapping[str, Any]]
    #: Structural hash of its anchor block alone; None where it has none.
    anchor_hash: str | None = None

    @property
    def module_sha256(self) -> str:
        return hashlib.sha256(self.module.encode()).hexdigest()


def same_hash(session: Session, *, tvm_version: str, shash: str) -> list[Workload]:
    """Workloads of this hash, oldest first: one, unless two that differ share it."""
    statement = (
        select(WorkloadRow)
        .where(WorkloadRow.tvm_version == tvm_version, WorkloadRow.shash == shash)
        .order_by(WorkloadRow.ordinal)
    )
    return [_workload(row) for row in session.scalars(statement)]


def store_workload(session: Session, new: NewWorkload, *, known: int) -> int | None:
    """Insert a workload that equals none of the `known` ones of its hash.

    None where another transaction stored one meanwhile: compare again.
    """
    count = session.scalars(
        select(func.count()).where(WorkloadRow.tvm_version == new.tvm_version, WorkloadRow.shash == new.shash)
    ).one()
    if count != known:
        return None
    values = {
        "tvm_version": new.tvm_version,
        "shash": new.shash,
        "ordinal": known,
        "module_z": zlib.compress(new.module.encode(), 6),
        "module_sha256": new.module_sha256,
        "flops": new.flops,
        "args": [dict(arg) for arg in new.args],
        "anchor_hash": new.anchor_hash,
        "operations": operations(new.module),
    }
    if not insert_unless_there(session, WorkloadRow, values, unique=["tvm_version", "shash", "ordinal"]):
        return None
    return session.scalars(
        select(WorkloadRow.id).where(
            WorkloadRow.tvm_version == new.tvm_version,
            WorkloadRow.shash == new.shash,
            WorkloadRow.ordinal == known,
        )
    ).one()


def note_anchor(session: Session, workload_id: int, anchor_hash: str | None) -> None:
    """Of a workload that was stored before anybody computed it."""
    if anchor_hash is not None:
        unknown = (WorkloadRow.id == workload_id) & WorkloadRow.anchor_hash.is_(None)
        session.execute(update(WorkloadRow).where(unknown).values(anchor_hash=anchor_hash))


def _workload(row: WorkloadRow) -> Workload:
    return Workload(
        id=row.id,
        shash=row.shash,
        tvm_version=row.tvm_version,
        module=zlib.decompress(row.module_z).decode(),
        module_sha256=row.module_sha256,
    )
