"""Our scripts and styles, and plotly.js out of its wheel: served by us, named by content, cached for good."""

import gzip
import hashlib
import importlib.util
from functools import cache
from pathlib import Path

from fastapi import APIRouter, Request
from starlette.responses import Response

from services.api.errors import NotFoundError

router = APIRouter(include_in_schema=False)
_STATIC = Path(__file__).parent / "static"
_PLOTLY = "plotly.min.js"
_MEDIA_TYPES = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".json": "application/json",
}
_GZIP_LEVEL = 6


@router.get("/static/{name}")
def asset(name: str, request: Request) -> Response:
    path = _paths().get(name)
    if path is None:
        raise NotFoundError("not_found", "there is no such file")
    headers = {"X-Content-Type-Options": "nosniff", "Vary": "Accept-Encoding"}
    headers["Cache-Control"] = "max-age=31536000, immutable" if "v" in request.query_params else "no-cache"
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return Response(path.read_bytes(), media_type=_MEDIA_TYPES[path.suffix], headers=headers)
    headers["Content-Encoding"] = "gzip"
    return Response(_gzipped(path), media_type=_MEDIA_TYPES[path.suffix], headers=headers)


def asset_url(name: str) -> str:
    return f"/static/{name}?v={_digest(_paths()[name])}"


def asset_bytes(name: str) -> bytes:
    return _paths()[name].read_bytes()


@cache
def _paths() -> dict[str, Path]:
    paths = {path.name: path for path in _STATIC.iterdir() if path.suffix in _MEDIA_TYPES}
    plotly = importlib.util.find_spec("plotly")
    assert plotly is not None
    assert plotly.origin is not None
    paths[_PLOTLY] = Path(plotly.origin).parent / "package_data" / _PLOTLY
    return paths


@cache
def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]


@cache
def _gzipped(path: Path) -> bytes:
    return gzip.compress(path.read_bytes(), _GZIP_LEVEL, mtime=0)
