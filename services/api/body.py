"""The size limit of the first wall: a body is read in pieces, gzip inflated, never more held than allowed.

No token is known yet, so all bodies of the process together are bounded too, and each has to come in time.
It leaves the body's SHA-256 in the scope for the idempotency check, and decides nothing about its meaning.
"""

import asyncio
import hashlib
import zlib
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.api.errors import (
    ApiError,
    BadRequestError,
    TooLargeError,
    TooSlowError,
    UnavailableError,
    UnsupportedError,
    problem_response,
)

SHA256_KEY = "tilefarm.body_sha256"
#: Of artifacts.
BINARY_TYPE = "application/octet-stream"
BINARY_PREFIX = "/v1/artifacts/"
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
_GZIP = 16 + zlib.MAX_WBITS
_RETRY_SECS = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyLimits:
    #: Of one body, also after decompression.
    body_bytes: int
    #: Of an artifact.
    binary_bytes: int
    #: Of all that the process holds at a time.
    together_bytes: int
    #: Until a body has come as a whole.
    secs: float


class BodyLimit:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp, *, limits: BodyLimits) -> None:
        self._app = app
        self._limits = limits
        self._held_bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] not in _WITH_BODY:
            await self._app(scope, receive, send)
            return
        body = bytearray()
        try:
            try:
                await self._read_in_time(scope, receive, body)
            except ApiError as error:
                await problem_response(error)(scope, receive, send)
                return
            scope[SHA256_KEY] = hashlib.sha256(body).hexdigest()
            scope["headers"] = [
                (name, value)
                for name, value in scope["headers"]
                if name not in (b"content-encoding", b"content-length")
            ] + [(b"content-length", str(len(body)).encode())]
            await self._app(scope, _replay(bytes(body), receive), send)
        finally:
            self._held_bytes -= len(body)

    async def _read_in_time(self, scope: Scope, receive: Receive, body: bytearray) -> None:
        try:
            async with asyncio.timeout(self._limits.secs):
                await self._read(scope, receive, body)
        except TimeoutError:
            said = f"the body did not come within {self._limits.secs:g} s"
            raise TooSlowError("body_too_slow", said) from None

    async def _read(self, scope: Scope, receive: Receive, body: bytearray) -> None:
        headers = Headers(scope=scope)
        binary = scope["method"] == "PUT" and scope["path"].startswith(BINARY_PREFIX)
        most_bytes = self._limits.binary_bytes if binary else self._limits.body_bytes
        declared = headers.get("content-length", "")
        if declared.isdecimal() and len(declared) < 20 and int(declared) > most_bytes:
            raise _too_large(most_bytes)
        encoding = headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("identity", "gzip"):
            raise UnsupportedError("unsupported_encoding", "a body is sent plain or as gzip")
        inflater = zlib.decompressobj(_GZIP) if encoding == "gzip" else None
        received_bytes, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise BadRequestError("disconnected", "the client went away")
            piece = message.get("body", b"")
            received_bytes += len(piece)
            room_bytes = most_bytes + 1 - len(body)
            self._hold(body, piece if inflater is None else _inflate(inflater, piece, room_bytes))
            if len(body) > most_bytes or received_bytes > most_bytes:
                raise _too_large(most_bytes)
            more = message.get("more_body", False)
        if inflater is not None and not inflater.eof:
            raise BadRequestError("malformed_gzip", "the gzip body ends early")
        if body:
            _require_type(headers, BINARY_TYPE if binary else "application/json")

    def _hold(self, body: bytearray, piece: bytes) -> None:
        body += piece
        self._held_bytes += len(piece)
        if self._held_bytes > self._limits.together_bytes:
            said = "too many bodies at once; try again"
            raise UnavailableError("overloaded", said, retry_secs=_RETRY_SECS)


def _inflate(inflater: Any, piece: bytes, most_bytes: int) -> bytes:
    try:
        inflated: bytes = inflater.decompress(piece, most_bytes)
    except zlib.error:
        raise BadRequestError("malformed_gzip", "the body is not gzip") from None
    if inflater.unused_data:
        raise BadRequestError("malformed_gzip", "the body is more than one gzip stream")
    return inflated


def _too_large(most_bytes: int) -> TooLargeError:
    return TooLargeError("body_too_large", f"a body has at most {most_bytes} bytes")


def _require_type(headers: Headers, wanted: str) -> None:
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != wanted:
        raise UnsupportedError("unsupported_media_type", f"a body is sent as {wanted} here")


def _replay(body: bytes, receive: Receive) -> Receive:
    sent = False

    async def replay() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
