"""The rows of what the farm works with: workers, what they built for each other, shares of devices, keys.

No row of db/tables.py refers to them.
"""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Float, ForeignKey, Integer, LargeBinary, String
from sqlalchemy.orm import Mapped, mapped_column

from db.clock import UtcDateTime, utc_now
from db.tables import Json, Row


class WorkerRow(Row):
    """A worker process; one per device. It writes nothing itself: the API writes what it says of itself."""

    __tablename__ = "workers"
    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    #: host:device; a new process of the same name replaces the old one.
    name: Mapped[str] = mapped_column(String(200), index=True)
    host: Mapped[str] = mapped_column(String(200))
    device: Mapped[str] = mapped_column(String(120))
    device_class: Mapped[str] = mapped_column(String(200))
    target_id: Mapped[int] = mapped_column(ForeignKey("targets.id"))
    role: Mapped[str] = mapped_column(String(16), default="both")
    #: The token that it joined with: no other may speak for it. None: joined before there was this column.
    token_id: Mapped[int | None] = mapped_column(BigInteger)
    state: Mapped[str] = mapped_column(String(16), default="running")
    desired_state: Mapped[str] = mapped_column(String(16), default="running")
    cores: Mapped[int] = mapped_column(Integer)
    memory_bytes: Mapped[int] = mapped_column(BigInteger)
    tvm_version: Mapped[str] = mapped_column(String(40))
    #: CPU model, driver, self-test noise: facts for people.
    facts: Mapped[dict[str, Any]] = mapped_column(Json, default=dict)
    #: [[trial_id, attempt], ..] that it holds, by its last heartbeat.
    holding: Mapped[list[list[int]]] = mapped_column(Json, default=list)
    stage_secs: Mapped[dict[str, float]] = mapped_column(Json, default=dict)
    started_at: Mapped[datetime] = mapped_column(UtcDateTime, default=utc_now())
    heartbeat_at: Mapped[datetime] = mapped_column(UtcDateTime, default=utc_now(), index=True)


class ArtifactRow(Row):
    """What one worker built and others load: a kernel, a reference. Whatever is gone is made anew."""

    __tablename__ = "artifacts"
    #: SHA-256 (hex) of the bytes before they were compressed.
    sha256: Mapped[str] = mapped_column(String(64), primary_key=True)
    data_z: Mapped[bytes] = mapped_column(LargeBinary)
    #: When it was last asked for by name, or stored.
    used_at: Mapped[datetime] = mapped_column(UtcDateTime, default=utc_now(), index=True)


class OwnerRow(Row):
    """An owner of jobs whose share of the devices is not 1."""

    __tablename__ = "owners"
    name: Mapped[str] = mapped_column(String(120), primary_key=True)
    weight: Mapped[float] = mapped_column(Float)


class UsageRow(Row):
    """Device-seconds that an owner's trials took on a target, fading with time (db/shares.py)."""

    __tablename__ = "usage"
    owner: Mapped[str] = mapped_column(String(120), primary_key=True)
    target_id: Mapped[int] = mapped_column(ForeignKey("targets.id"), primary_key=True)
    #: As they stood at `as_of`.
    device_secs: Mapped[float] = mapped_column(Float)
    as_of: Mapped[datetime] = mapped_column(UtcDateTime)


class SigningKeyRow(Row):
    """The public half of a key that records were signed with; the private half is in no database."""

    __tablename__ = "signing_keys"
    #: First 16 hex digits of the SHA-256 of the raw public key.
    id: Mapped[str] = mapped_column(String(16), primary_key=True)
    #: `ed25519:` and the raw public key in base64.
    public_key: Mapped[str] = mapped_column(String(64))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime, default=utc_now())
