"""How pages and the numbers of charts travel: compressed; not at all where the browser has them."""

import gzip
import hashlib
from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

_WORTH_COMPRESSING_BYTES = 1_000
_GZIP_LEVEL = 5


def send(
    request: Request, content: bytes, *, media_type: str, status: int = 200, headers: Mapping[str, str] = {}
) -> Response:
    """The content; 304 where the request names its ETag."""
    etag = f'W/"{hashlib.sha256(content).hexdigest()[:24]}"'
    every = {**headers, "ETag": etag, "Vary": "Accept-Encoding, Cookie", "Cache-Control": "no-store"}
    if status == 200 and request.headers.get("if-none-match") == etag:
        return Response(status_code=304, headers=every)
    if len(content) > _WORTH_COMPRESSING_BYTES and "gzip" in request.headers.get("accept-encoding", ""):
        content = gzip.compress(content, _GZIP_LEVEL, mtime=0)
        every["Content-Encoding"] = "gzip"
    return Response(content, status_code=status, media_type=media_type, headers=every)
