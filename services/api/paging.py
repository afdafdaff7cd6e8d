"""Page tokens: opaque to clients, to us the place where a page ended. One that does not read is refused."""

import base64
import binascii
import json
import re
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import Query

from db.jobs import Place
from db.workers import WorkerPlace
from services.api.errors import InvalidError

_JOB_ID, _WORKER_ID = (re.compile(kind + "-[a-z2-7]{16}") for kind in ("job", "worker"))
MOST_ON_A_PAGE = 500
#: A worker's name has 200 characters, of four bytes at most.
_MAX_TOKEN = 1400
PageSize = Annotated[int, Query(ge=1, le=MOST_ON_A_PAGE)]
PageToken = Annotated[str | None, Query(max_length=_MAX_TOKEN)]


def job_token(place: Place) -> str:
    return _pack([place.created_at.isoformat(), place.id])


def job_place(token: str | None) -> Place | None:
    if token is None:
        return None
    try:
        created_at, job_id = _unpack(token)
        if _JOB_ID.fullmatch(job_id):
            return Place(created_at=_moment(created_at), id=job_id)
    except (ValueError, TypeError, OverflowError):
        raise _bad_token() from None
    raise _bad_token()


def worker_token(place: WorkerPlace) -> str:
    return _pack([place.name, place.started_at.isoformat(), place.id])


def worker_place(token: str | None) -> WorkerPlace | None:
    if token is None:
        return None
    try:
        name, started_at, worker_id = _unpack(token)
        if _is_name(name) and _WORKER_ID.fullmatch(worker_id):
            return WorkerPlace(name=name, started_at=_moment(started_at), id=worker_id)
    except (ValueError, TypeError, OverflowError):
        raise _bad_token() from None
    raise _bad_token()


def id_token(last_id: int) -> str:
    return _pack([last_id])


def id_place(token: str | None) -> int | None:
    if token is None:
        return None
    try:
        (last_id,) = _unpack(token)
    except (ValueError, TypeError):
        raise _bad_token() from None
    if not isinstance(last_id, int) or isinstance(last_id, bool) or not 0 < last_id < 2**63:
        raise _bad_token()
    return last_id


def _is_name(name: str) -> bool:
    """Raises ValueError for what has no form in UTF-8, TypeError for what is no text."""
    return b"\0" not in str.encode(name)


def _moment(text: str) -> datetime:
    """In UTC. Raises ValueError, TypeError, and OverflowError: one of the year 1 or 9999 may have no form."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("no time zone")
    return moment.astimezone(UTC)


def _pack(parts: list[str | int]) -> str:
    return base64.urlsafe_b64encode(json.dumps(parts, ensure_ascii=False).encode()).decode().rstrip("=")


def _unpack(token: str) -> list[Any]:
    try:
        data = base64.b64decode(
            token.encode("ascii") + b"=" * (-len(token) % 4), altchars=b"-_", validate=True
        )
        parts = json.loads(data)
    except (binascii.Error, ValueError, RecursionError):
        raise _bad_token() from None
    if not isinstance(parts, list):
        raise _bad_token()
    return parts


def _bad_token() -> InvalidError:
    return InvalidError("bad_page_token", "page_token is not one that a page gave")
