"""The rows of callers: tokens, browser keys, idempotency keys, and what lookups asked for.

No row of db/tables.py refers to them.
"""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from db.clock import UtcDateTime, utc_now
from db.tables import BigId, Json, Row


class TokenRow(Row):
    """A bearer token, hashed at rest."""

    __tablename__ = "tokens"
    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=True)
    name: Mapped[str] = mapped_column(String(120), unique=True)
    #: SHA-256 (hex) of the token; tokens are 256 bits of randomness, so no salt is needed.
    token_sha256: Mapped[str] = mapped_column(String(64), unique=True)
    scopes: Mapped[list[str]] = mapped_column(Json)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime, default=utc_now())
    expires_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    revoked_at: Mapped[datetime | None] = mapped_column(UtcDateTime)


class BrowserKeyRow(Row):
    """What a browser shows instead of a token: a dashboard link, used once, or the session it became."""

    __tablename__ = "browser_keys"
    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=True)
    #: Whose rights it has; it ends when the token does.
    token_id: Mapped[int] = mapped_column(ForeignKey("tokens.id", ondelete="CASCADE"))
    #: `link` or `session`.
    kind: Mapped[str] = mapped_column(String(16))
    #: SHA-256 (hex) of the key; keys are 256 bits of randomness, so no salt is needed.
    key_sha256: Mapped[str] = mapped_column(String(64), unique=True)
    #: It may look at jobs and records, and do nothing.
    read_only: Mapped[bool] = mapped_column(default=False)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime, default=utc_now())
    expires_at: Mapped[datetime] = mapped_column(UtcDateTime)


class IdempotencyKeyRow(Row):
    """(token, key) → job, committed with the job, kept 24 h."""

    __tablename__ = "idempotency_keys"
    token_id: Mapped[int] = mapped_column(ForeignKey("tokens.id"), primary_key=True)
    key: Mapped[str] = mapped_column(String(200), primary_key=True)
    body_sha256: Mapped[str] = mapped_column(String(64))
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime, default=utc_now())


class LookupTrafficRow(Row):
    """How lookups of an hour ended, by target; replicas of the API add to the same row."""

    __tablename__ = "lookup_traffic"
    hour: Mapped[datetime] = mapped_column(UtcDateTime, primary_key=True)
    target_key: Mapped[str] = mapped_column(String(64), primary_key=True)
    hits: Mapped[int] = mapped_column(BigInteger, default=0)
    #: There was a record for another target or TVM version.
    near: Mapped[int] = mapped_column(BigInteger, default=0)
    misses: Mapped[int] = mapped_column(BigInteger, default=0)


class LookupMissRow(Row):
    """A workload that was asked for, with or without something near, and had no record."""

    __tablename__ = "lookup_misses"
    __table_args__ = (Index("ix_lookup_misses_last", "last_at"),)
    shash: Mapped[str] = mapped_column(String(16), primary_key=True)
    target_key: Mapped[str] = mapped_column(String(64), primary_key=True)
    tvm_version: Mapped[str] = mapped_column(String(40), primary_key=True)
    #: The canonical dict.
    target: Mapped[dict[str, Any]] = mapped_column(Json)
    count: Mapped[int] = mapped_column(BigInteger, default=0)
    first_at: Mapped[datetime] = mapped_column(UtcDateTime, default=utc_now())
    last_at: Mapped[datetime] = mapped_column(UtcDateTime, default=utc_now())
