"""Artifacts: what one worker built and others load, by the SHA-256 of its bytes, compressed.

They are made anew where they are missing, so any of them may be dropped at any time.
"""

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from db.clock import utc_now
from db.conflict import insert_unless_there
from db.farm_tables import ArtifactRow
from db.rowcount import changed


def store_artifact(session: Session, sha256: str, data_z: bytes) -> None:
    """Keep zlib-compressed bytes whose hash the caller has checked."""
    if not touch_artifact(session, sha256):
        insert_unless_there(session, ArtifactRow, {"sha256": sha256, "data_z": data_z}, unique=["sha256"])


def touch_artifact(session: Session, sha256: str) -> bool:
    """Whether it is there; it then stays for a while longer."""
    statement = update(ArtifactRow).where(ArtifactRow.sha256 == sha256).values(used_at=utc_now())
    return changed(session, statement) == 1


def load_artifact(session: Session, sha256: str) -> bytes | None:
    """Zlib of the bytes; None where it is not there, or no longer."""
    return session.scalars(select(ArtifactRow.data_z).where(ArtifactRow.sha256 == sha256)).first()


def drop_artifacts(session: Session, *, unused_secs: float, limit: int = 500) -> int:
    """Drop the oldest of those that nobody stored or asked for within `unused_secs`; how many."""
    old = (
        select(ArtifactRow.sha256)
        .where(ArtifactRow.used_at < utc_now(offset_secs=-unused_secs))
        .order_by(ArtifactRow.used_at)
        .limit(limit)
    )
    found = list(session.scalars(old))
    return changed(session, delete(ArtifactRow).where(ArtifactRow.sha256.in_(found))) if found else 0
