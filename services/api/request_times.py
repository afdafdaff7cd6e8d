"""How long requests take, by route, in a histogram; event streams, as long as they are watched, aside."""

import time

from prometheus_client import Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_BUCKETS_SECS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class RequestTimes:
    """The histogram of one application; its labels are the routes' templates, never a path that was asked."""

    def __init__(self) -> None:
        self.histogram = Histogram(
            "tilefarm_http_request_duration_seconds",
            "Duration of requests, to the end of the answer",
            ["method", "route", "status"],
            registry=None,
            buckets=_BUCKETS_SECS,
        )

    def observe(self, scope: Scope, *, status: int, secs: float) -> None:
        route = getattr(scope.get("route"), "path", None)
        # What no route took may have any method and path.
        method = scope["method"] if route is not None else "any"
        self.histogram.labels(method, route or "none", str(status)).observe(secs)


class TimeRequests:
    """ASGI middleware: observes each request."""

    def __init__(self, app: ASGIApp, *, times: RequestTimes) -> None:
        self._app = app
        self._times = times

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        status, streams = 500, False

        async def watch(message: Message) -> None:
            nonlocal status, streams
            if message["type"] == "http.response.start":
                status = message["status"]
                streams = any(
                    name.lower() == b"content-type" and value.startswith(b"text/event-stream")
                    for name, value in message.get("headers", ())
                )
            await send(message)

        try:
            await self._app(scope, receive, watch)
        finally:
            if not streams:
                self._times.observe(scope, status=status, secs=time.perf_counter() - started)
