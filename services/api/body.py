"""The size limit of the first wall: a body is read in pieces, gzip inflated, never more held than allowed.

It leaves the body's SHA-256 in the scope for the idempotency check, and decides nothing about its meaning.
"""

import hashlib
import zlib
from typing import Any

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.api.errors import ApiError, BadRequestError, TooLargeError, UnsupportedError, problem_response

SHA256_KEY = "tilefarm.body_sha256"
#: Of artifacts.
BINARY_TYPE = "application/octet-stream"
BINARY_PREFIX = "/v1/artifacts/"
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
_GZIP = 16 + zlib.MAX_WBITS


class BodyLimit:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp, *, max_body_bytes: int, max_binary_bytes: int = 0) -> None:
        self._app = app
        self._max_body_bytes = max_body_bytes
        self._max_binary_bytes = max_binary_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] not in _WITH_BODY:
            await self._app(scope, receive, send)
            return
        try:
            body = await self._read(scope, receive)
        except ApiError as error:
            await problem_response(error)(scope, receive, send)
            return
        scope[SHA256_KEY] = hashlib.sha256(body).hexdigest()
        scope["headers"] = [
            (name, value)
            for name, value in scope["headers"]
            if name not in (b"content-encoding", b"content-length")
        ] + [(b"content-length", str(len(body)).encode())]
        await self._app(scope, _replay(body, receive), send)

    async def _read(self, scope: Scope, receive: Receive) -> bytes:
        headers = Headers(scope=scope)
        binary = scope["method"] == "PUT" and scope["path"].startswith(BINARY_PREFIX)
        most_bytes = self._max_binary_bytes if binary else self._max_body_bytes
        declared = headers.get("content-length", "")
        if declared.isdecimal() and len(declared) < 20 and int(declared) > most_bytes:
            raise _too_large(most_bytes)
        encoding = headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("identity", "gzip"):
            raise UnsupportedError("unsupported_encoding", "a body is sent plain or as gzip")
        body, inflater = bytearray(), zlib.decompressobj(_GZIP) if encoding == "gzip" else None
        received_bytes, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise BadRequestError("disconnected", "the client went away")
            piece = message.get("body", b"")
            received_bytes += len(piece)
            body += piece if inflater is None else _inflate(inflater, piece, most_bytes + 1 - len(body))
            if len(body) > most_bytes or received_bytes > most_bytes:
                raise _too_large(most_bytes)
            more = message.get("more_body", False)
        if inflater is not None and not inflater.eof:
            raise BadRequestError("malformed_gzip", "the gzip body ends early")
        if body:
            _require_type(headers, BINARY_TYPE if binary else "application/json")
        return bytes(body)


def _inflate(inflater: Any, piece: bytes, most_bytes: int) -> bytes:
    try:
        inflated: bytes = inflater.decompress(piece, most_bytes)
    except zlib.error:
        raise BadRequestError("malformed_gzip", "the body is not gzip") from None
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
