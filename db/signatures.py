"""Signatures of published records, and the public halves of the keys. What is signed, db does not know."""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Select, func, or_, select, update
from sqlalchemy.orm import Session

from db.conflict import insert_unless_there
from db.farm_tables import SigningKeyRow
from db.states import RecordState
from db.tables import RecordRow, TargetRow, WorkloadRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Signable:
    """A published record, as far as a signature is about it."""

    record_id: int
    module_sha256: str
    target_key: str
    #: Trace JSON text.
    trace: str
    tvm_version: str
    signature: str | None
    signing_key_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningKey:
    id: str
    #: `ed25519:` and base64.
    public_key: str
    created_at: datetime
    #: Published records that carry its signature.
    records: int


def store_key(session: Session, key_id: str, public_key: str) -> None:
    insert_unless_there(session, SigningKeyRow, {"id": key_id, "public_key": public_key}, unique=["id"])


def list_keys(session: Session) -> list[SigningKey]:
    """Newest first."""
    signed = (
        select(RecordRow.signing_key_id, func.count().label("records"))
        .where(RecordRow.state == RecordState.PUBLISHED)
        .group_by(RecordRow.signing_key_id)
        .subquery()
    )
    statement = (
        select(SigningKeyRow, func.coalesce(signed.c.records, 0))
        .outerjoin(signed, signed.c.signing_key_id == SigningKeyRow.id)
        .order_by(SigningKeyRow.created_at.desc(), SigningKeyRow.id)
    )
    return [
        SigningKey(id=row.id, public_key=row.public_key, created_at=row.created_at, records=count)
        for row, count in session.execute(statement)
    ]


def public_keys(session: Session) -> dict[str, str]:
    """Public key by id."""
    return {row.id: row.public_key for row in session.scalars(select(SigningKeyRow))}


def signable(session: Session, record_id: int) -> Signable:
    return next(_signables(session, _query().where(RecordRow.id == record_id)))


def lacking(session: Session, key_id: str, *, after_id: int, limit: int) -> list[Signable]:
    """Published records without a signature of this key, in the order of their ids."""
    other = or_(RecordRow.signing_key_id.is_(None), RecordRow.signing_key_id != key_id)
    statement = (
        _query()
        .where(RecordRow.state == RecordState.PUBLISHED, RecordRow.id > after_id, other)
        .order_by(RecordRow.id)
        .limit(limit)
    )
    return list(_signables(session, statement))


def sign_record(session: Session, record_id: int, *, key_id: str, signature: str) -> None:
    session.execute(
        update(RecordRow)
        .where(RecordRow.id == record_id)
        .values(signature=signature, signing_key_id=key_id)
        .execution_options(synchronize_session=False)
    )


def _query() -> Select[int, str, str, bytes, str, str | None, str | None]:
    return (
        select(
            RecordRow.id, WorkloadRow.module_sha256, TargetRow.key, RecordRow.trace_z, RecordRow.tvm_version,
            RecordRow.signature, RecordRow.signing_key_id,
        )
        .join(WorkloadRow, WorkloadRow.id == RecordRow.workload_id)
        .join(TargetRow, TargetRow.id == RecordRow.target_id)
    )  # fmt: skip


def _signables(
    session: Session, statement: Select[int, str, str, bytes, str, str | None, str | None]
) -> Iterator[Signable]:
    for record_id, module_sha256, target_key, trace_z, tvm_version, signature, key_id in session.execute(
        statement
    ):
        yield Signable(
            record_id=record_id,
            module_sha256=module_sha256,
            target_key=target_key,
            trace=zlib.decompress(trace_z).decode(),
            tvm_version=tvm_version,
            signature=signature,
            signing_key_id=key_id,
        )
