"""What a browser shows instead of a token: links that work once, and sessions. Hashed at rest, like tokens.

A key never has more rights than its token, and ends with it. What a session may do is decided by the caller
from the scopes that come back.
"""

import secrets
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from db.caller_tables import BrowserKeyRow, TokenRow
from db.clock import utc_now
from db.rowcount import changed
from db.tokens import Token, token_sha256, valid_token


class KeyKind(StrEnum):
    #: Becomes a session, once.
    LINK = "link"
    SESSION = "session"


READ_SCOPES = frozenset({"jobs:read", "records:read"})


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserSession:
    """Who looks: the token behind the session, with the scopes that the session leaves it."""

    token: Token
    read_only: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    id: int
    token_id: int
    read_only: bool


def make_key(
    session: Session, token_id: int, *, kind: KeyKind, lifetime_secs: float, read_only: bool = False
) -> str:
    """Make a key and return it, for the only time. Those that expired go."""
    changed(session, delete(BrowserKeyRow).where(BrowserKeyRow.expires_at <= utc_now()))
    key = secrets.token_urlsafe(32)
    session.add(
        BrowserKeyRow(
            token_id=token_id,
            kind=kind,
            key_sha256=token_sha256(key),
            read_only=read_only,
            expires_at=utc_now(offset_secs=lifetime_secs),
        )
    )
    session.flush()
    return key


def use_link(session: Session, link: str, *, lifetime_secs: float) -> str | None:
    """Turn a link into a session's key; None where it is unknown, used or expired."""
    row = _valid(session, link, KeyKind.LINK)
    if row is None or not changed(session, delete(BrowserKeyRow).where(BrowserKeyRow.id == row.id)):
        return None
    return make_key(
        session, row.token_id, kind=KeyKind.SESSION, lifetime_secs=lifetime_secs, read_only=row.read_only
    )


def read_session(session: Session, key: str) -> BrowserSession | None:
    """Who the session is; None where it or its token has ended."""
    row = _valid(session, key, KeyKind.SESSION)
    token = None if row is None else valid_token(session, TokenRow.id == row.token_id)
    if row is None or token is None:
        return None
    if not row.read_only:
        return BrowserSession(token=token, read_only=False)
    scopes = READ_SCOPES if "admin" in token.scopes else token.scopes & READ_SCOPES
    return BrowserSession(token=token.narrowed(scopes), read_only=True)


def end_session(session: Session, key: str) -> None:
    changed(session, delete(BrowserKeyRow).where(BrowserKeyRow.key_sha256 == token_sha256(key)))


def _valid(session: Session, key: str, kind: KeyKind) -> _Found | None:
    statement = select(BrowserKeyRow.id, BrowserKeyRow.token_id, BrowserKeyRow.read_only).where(
        BrowserKeyRow.key_sha256 == token_sha256(key),
        BrowserKeyRow.kind == kind,
        BrowserKeyRow.expires_at > utc_now(),
    )
    row = session.execute(statement).first()
    return None if row is None else _Found(id=row.id, token_id=row.token_id, read_only=row.read_only)
