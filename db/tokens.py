"""Bearer tokens: hashed at rest, scoped, expiring by database time. The token itself is seen only once."""

import dataclasses
import hashlib
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, Select, bindparam, or_, select, update
from sqlalchemy.orm import Session

from db.caller_tables import TokenRow
from db.clock import utc_now
from db.rowcount import changed

SCOPES = ("jobs:read", "jobs:write", "records:read", "records:import", "worker", "admin")
_PREFIX = "tf_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token as stored; never the token itself."""

    id: int
    name: str
    scopes: frozenset[str]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None

    def narrowed(self, scopes: frozenset[str]) -> "Token":
        """The same token with fewer rights."""
        return dataclasses.replace(self, scopes=scopes)


def token_sha256(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def create_token(
    session: Session, name: str, *, scopes: Collection[str], lifetime_secs: float | None = None
) -> str:
    """Make a token and return it, for the only time. Raises ValueError on an unknown scope."""
    _check(scopes)
    token = _PREFIX + secrets.token_urlsafe(32)
    session.add(
        TokenRow(
            name=name,
            token_sha256=token_sha256(token),
            scopes=sorted(scopes),
            expires_at=None if lifetime_secs is None else utc_now(offset_secs=lifetime_secs),
        )
    )
    session.flush()
    return token


def adopt_token(session: Session, name: str, token: str, *, scopes: Collection[str]) -> bool:
    """Store a token that was made elsewhere; False where it is stored so already.

    Raises ValueError on an unknown scope, or where the token is known otherwise.
    """
    _check(scopes)
    known = session.scalars(_tokens().where(TokenRow.token_sha256 == token_sha256(token))).first()
    if known is None:
        session.add(TokenRow(name=name, token_sha256=token_sha256(token), scopes=sorted(scopes)))
        session.flush()
        return True
    if known.revoked_at is not None:
        raise ValueError(f"this token was revoked; it was {known.name!r}")
    if (known.name, known.scopes) != (name, sorted(scopes)):
        raise ValueError(f"this token is {known.name!r} already, with {', '.join(known.scopes)}")
    return False


def find_token(session: Session, token: str) -> Token | None:
    """The token, if it is neither revoked nor expired."""
    row = session.scalars(_FIND, {"token_sha256": token_sha256(token)}).first()
    return None if row is None else _token(row)


def valid_token(session: Session, which: ColumnElement[bool]) -> Token | None:
    """The token of a condition, if it is neither revoked nor expired."""
    row = session.scalars(_valid(which)).first()
    return None if row is None else _token(row)


def list_tokens(session: Session) -> list[Token]:
    return [_token(row) for row in session.scalars(_tokens().order_by(TokenRow.id))]


def revoke_token(session: Session, name: str) -> bool:
    """False where there is no such token, or it is revoked already."""
    statement = update(TokenRow).where(TokenRow.name == name, TokenRow.revoked_at.is_(None))
    return changed(session, statement.values(revoked_at=utc_now())) == 1


def _check(scopes: Collection[str]) -> None:
    unknown = set(scopes) - set(SCOPES)
    if unknown:
        raise ValueError(f"unknown scopes: {', '.join(sorted(unknown))}")


def _tokens() -> Select[TokenRow]:
    return select(TokenRow)


def _valid(which: ColumnElement[bool]) -> Select[TokenRow]:
    return _tokens().where(
        which,
        TokenRow.revoked_at.is_(None),
        or_(TokenRow.expires_at.is_(None), TokenRow.expires_at > utc_now()),
    )


#: Made once: every request asks it.
_FIND = _valid(TokenRow.token_sha256 == bindparam("token_sha256"))


def _token(row: TokenRow) -> Token:
    return Token(
        id=row.id,
        name=row.name,
        scopes=frozenset(row.scopes),
        created_at=row.created_at,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
    )
