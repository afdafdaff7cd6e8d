"""Page tokens: opaque to clients, to us the place where a page ended. One that does not read is refused."""

import base64
import binascii
import json
import re
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import Query

from db.jobs import Place
from services.api.errors import InvalidError

_JOB_ID = re.compile(r"job-[a-z2-7]{16}")
PageSize = Annotated[int, Query(ge=1, le=500)]
PageToken = Annotated[str | None, Query(max_length=300)]


def job_token(place: Place) -> str:
    return _pack([place.created_at.isoformat(), place.id])


def job_place(token: str | None) -> Place | None:
    if token is None:
        return None
    try:
        created_at, job_id = _unpack(token)
        moment = datetime.fromisoformat(created_at)
        if moment.tzinfo is not None and _JOB_ID.fullmatch(job_id):
            # A moment of the year 1 or 9999 may have no form in UTC.
            return Place(created_at=moment.astimezone(UTC), id=job_id)
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


def _pack(parts: list[str | int]) -> str:
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode().rstrip("=")


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
