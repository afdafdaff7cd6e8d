"""Who submits, and under which idempotency key: a retry makes no second job."""

from dataclasses import dataclass

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from db.idempotency import find_use, use_key
from db.session import reading
from services.api.errors import InvalidError


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """The token that submits, by id and by name, and its idempotency key."""

    token_id: int
    name: str
    idempotency_key: str | None = None
    body_sha256: str = ""


class RacedError(Exception):
    """Another transaction stored a workload of the same hash, or used the same idempotency key."""


def earlier_job(engine: Engine, sender: Sender) -> str | None:
    """The job that the sender's key has made already. Raises InvalidError: by another body."""
    if sender.idempotency_key is None:
        return None
    with reading(engine) as session:
        use = find_use(session, token_id=sender.token_id, key=sender.idempotency_key)
    if use is None:
        return None
    if use.body_sha256 != sender.body_sha256:
        raise InvalidError.of("idempotency_key_reused", "the Idempotency-Key was used for another request")
    return use.job_id


def claim_key(session: Session, sender: Sender, job_id: str) -> None:
    """Commit the key with the job that it makes. Raises RacedError: it was used meanwhile."""
    if sender.idempotency_key is not None and not use_key(
        session,
        token_id=sender.token_id,
        key=sender.idempotency_key,
        body_sha256=sender.body_sha256,
        job_id=job_id,
    ):
        raise RacedError
