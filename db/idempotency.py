"""Idempotency keys: (token, key) → job, committed with the job, kept a day."""

from dataclasses import dataclass

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from db.caller_tables import IdempotencyKeyRow
from db.clock import utc_now
from db.conflict import insert_unless_there

KEPT_SECS = 24 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """What a key was used for."""

    body_sha256: str
    job_id: str


def find_use(session: Session, *, token_id: int, key: str) -> Used | None:
    row = session.scalars(
        select(IdempotencyKeyRow).where(
            IdempotencyKeyRow.token_id == token_id,
            IdempotencyKeyRow.key == key,
            IdempotencyKeyRow.created_at > utc_now(offset_secs=-KEPT_SECS),
        )
    ).first()
    return None if row is None else Used(body_sha256=row.body_sha256, job_id=row.job_id)


def use_key(session: Session, *, token_id: int, key: str, body_sha256: str, job_id: str) -> bool:
    """False where the key is used already, also by a transaction that committed while this one waited."""
    session.execute(
        delete(IdempotencyKeyRow).where(IdempotencyKeyRow.created_at <= utc_now(offset_secs=-KEPT_SECS))
    )
    values = {"token_id": token_id, "key": key, "body_sha256": body_sha256, "job_id": job_id}
    return insert_unless_there(session, IdempotencyKeyRow, values, unique=["token_id", "key"])
