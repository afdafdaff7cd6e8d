"""One line of log per request, health checks aside."""

import time

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_QUIET = frozenset({"/healthz", "/readyz", "/metrics"})
_log = structlog.get_logger(__name__)


class AccessLog:
    """ASGI middleware: method, path, status and milliseconds of each request."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in _QUIET:
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        status = 500

        async def watch(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, watch)
        finally:
            _log.info(
                "request_done",
                method=scope["method"],
                path=scope["path"],
                status=status,
                ms=round((time.perf_counter() - started) * 1e3, 2),
            )
