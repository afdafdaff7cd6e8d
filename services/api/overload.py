"""Says no in time: a request more than this process can serve soon is answered 503 at once, with Retry-After.

Submissions have a smaller share of their own, because each waits for a child: lookups never wait behind them.
Health, metrics, workers' heartbeats and event streams (which have a limit of their own) always pass.
"""

from collections import Counter

from starlette.types import ASGIApp, Receive, Scope, Send

from services.api.errors import UnavailableError, problem_response

_FREE_PATHS = frozenset({"/healthz", "/readyz", "/metrics"})
_FREE_PREFIX = "/v1/workers"
_FREE_SUFFIX = "/events"
_SUBMISSIONS = frozenset({("POST", "/v1/jobs")})
_RETRY_SECS = 1


class LimitRequests:
    """ASGI middleware; counts what is in flight in this process."""

    def __init__(self, app: ASGIApp, *, max_requests: int, max_submissions: int) -> None:
        self._app = app
        self._most = {"requests": max_requests, "submissions": max_submissions}
        self._in_flight: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or _is_free(scope["path"]):
            await self._app(scope, receive, send)
            return
        kind = "submissions" if (scope["method"], scope["path"]) in _SUBMISSIONS else "requests"
        if self._in_flight[kind] >= self._most[kind]:
            error = UnavailableError("overloaded", f"too many {kind} at once", retry_secs=_RETRY_SECS)
            await problem_response(error)(scope, receive, send)
            return
        self._in_flight[kind] += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._in_flight[kind] -= 1


def _is_free(path: str) -> bool:
    return path in _FREE_PATHS or path.startswith(_FREE_PREFIX) or path.endswith(_FREE_SUFFIX)
