"""Tokens for the command line and for the embedded service. A token is shown once.

What a token is, and how it is checked, stands in db/tokens.py.
"""

import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from sqlalchemy import Engine
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from db.browser_keys import KeyKind, make_key
from db.session import connect, reading, transaction
from db.tokens import SCOPES, adopt_token, create_token, find_token, list_tokens, revoke_token
from services.server.private_files import write_private

_SECS_PER_DAY = 86_400.0
_LINK_SECS = _SECS_PER_DAY
_MAX_DAYS = 36_500
_MAX_NAME_CHARS = 120
#: Of an adopted token: `openssl rand -hex 32` has 64.
_MIN_SECRET_CHARS = 32
_MAX_SECRET_CHARS = 500


def ensure_file(url: str, path: Path, *, name: str, scopes: Sequence[str] = SCOPES) -> str:
    """The token in `path` if it is still valid, else a new one, written there with mode 0600."""
    with _engine(url) as engine:
        if path.exists():
            token = path.read_text().strip()
            with reading(engine) as session:
                if find_token(session, token) is not None:
                    return token
        with transaction(engine) as session:
            token = create_token(session, _free_name(session, name), scopes=scopes)
    write_private(path, token + "\n")
    return token


def ensure_known(url: str, token: str, *, name: str, scopes: Sequence[str]) -> None:
    """Store a token that was made elsewhere, unless it is valid already; ValueError where it was revoked."""
    with _engine(url) as engine, transaction(engine) as session:
        if find_token(session, token) is None:
            adopt_token(session, _free_name(session, name), token, scopes=scopes)


def _free_name(session: Session, name: str) -> str:
    number = sum(old.name.split("#")[0] == name for old in list_tokens(session))
    return f"{name}#{number}" if number else name


def dashboard_link(url: str, *, token: str, base_url: str) -> str:
    """An address that opens the dashboard with the token's rights, once."""
    with _engine(url) as engine, transaction(engine) as session:
        found = find_token(session, token)
        assert found is not None
        key = make_key(session, found.id, kind=KeyKind.LINK, lifetime_secs=_LINK_SECS)
    return f"{base_url}/open#link={key}"


def create(url: str, *, name: str, scopes: Sequence[str], days: float | None) -> int:
    fault = _fault(name, days)
    if fault is not None:
        print(f"tilefarm-server token: {fault}", file=sys.stderr)
        return 2
    lifetime_secs = None if days is None else days * _SECS_PER_DAY
    try:
        with _engine(url) as engine, transaction(engine) as session:
            token = create_token(session, name, scopes=scopes, lifetime_secs=lifetime_secs)
    except ValueError as error:
        print(f"tilefarm-server token: {error}; there are: {', '.join(SCOPES)}", file=sys.stderr)
        return 2
    except IntegrityError:
        print(f"tilefarm-server token: there is a token {name!r} already", file=sys.stderr)
        return 2
    print(token)
    return 0


def adopt(url: str, *, name: str, scopes: Sequence[str], path: Path) -> int:
    """Make the secret in a file a token: an orchestrator made it and mounts it where it is used.

    May be run again at every start: what is there already stays.
    """
    try:
        token = path.read_text(encoding="ascii").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        return _refuse(f"{path} cannot be read ({error})")
    if not _MIN_SECRET_CHARS <= len(token) <= _MAX_SECRET_CHARS or not token.isprintable() or " " in token:
        return _refuse(f"{path} holds no token: one line of {_MIN_SECRET_CHARS} or more characters, no space")
    fault = _fault(name, None)
    if fault is not None:
        return _refuse(fault)
    try:
        with _engine(url) as engine, transaction(engine) as session:
            new = adopt_token(session, name, token, scopes=scopes)
    except ValueError as error:
        return _refuse(f"{error}; scopes are: {', '.join(SCOPES)}")
    except IntegrityError:
        return _refuse(f"there is a token {name!r} already, and it is another one")
    print(f"{name}: {'adopted' if new else 'known already'}")
    return 0


def _refuse(reason: str) -> int:
    print(f"tilefarm-server token: {reason}", file=sys.stderr)
    return 2


def _fault(name: str, days: float | None) -> str | None:
    if not name.isprintable() or not 1 <= len(name.strip()) <= _MAX_NAME_CHARS:
        return f"a name is 1 to {_MAX_NAME_CHARS} printable characters"
    if days is not None and not 0 < days <= _MAX_DAYS:
        return f"--days is above 0 and at most {_MAX_DAYS}"
    return None


def list_all(url: str) -> int:
    with _engine(url) as engine, reading(engine) as session:
        tokens = list_tokens(session)
    for token in tokens:
        end = "never" if token.expires_at is None else f"{token.expires_at:%Y-%m-%d %H:%M}"
        state = "revoked" if token.revoked_at else f"expires {end}"
        print(f"{token.name:<24} {','.join(sorted(token.scopes)):<60} {state}")
    return 0


def revoke(url: str, *, name: str) -> int:
    with _engine(url) as engine, transaction(engine) as session:
        revoked = revoke_token(session, name)
    if not revoked:
        print(f"tilefarm-server token: no valid token {name!r}", file=sys.stderr)
    return 0 if revoked else 1


@contextlib.contextmanager
def _engine(url: str) -> Iterator[Engine]:
    engine = connect(url, pool_size=1)
    try:
        yield engine
    finally:
        engine.dispose()
