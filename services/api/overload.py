"""Says no in time: a request more than this process can serve soon is answered 503 at once, with Retry-After.

Submissions, and whatever else waits for an intake child, have a smaller share of their own: lookups and
heartbeats never wait behind them. Health, metrics, workers' heartbeats and event streams (which have a limit
of their own) always pass. A place is taken when the body has come, so that who sends slowly takes nobody's; a
refusal costs next to nothing: its answer is ready, nothing is read for it and no line of log written.
"""

import re
from collections import Counter

from starlette.types import ASGIApp, Receive, Scope, Send

from services.api.errors import UnavailableError, problem_response

_FREE_PATHS = frozenset({"/healthz", "/readyz", "/metrics"})
_FREE_PREFIX = "/v1/workers"
#: Of a job's events, for a token and for a page's session.
_FREE_SUFFIXES = ("/events", "/live")
#: What holds a thread until an intake child has answered; children are few.
_SUBMISSION = re.compile(
    r"POST (/v1/jobs|/v1/records:(import|import-many)|/records/tune|/example)"
    r"|GET (/v1/tasks/[^/]+/record|/tasks/[^/]+/scripts|/trials/[^/]+/script)"
)
_RETRY_SECS = 1
_REFUSAL = problem_response(
    UnavailableError("overloaded", "too many requests at once; try again", retry_secs=_RETRY_SECS)
)


class Places:
    """What is in flight in this process, by kind, and how much may be. Used by the event loop alone."""

    def __init__(self, *, max_requests: int, max_submissions: int) -> None:
        self._most = {"requests": max_requests, "submissions": max_submissions}
        self._taken: Counter[str] = Counter()

    def full(self, kind: str) -> bool:
        return self._taken[kind] >= self._most[kind]

    def take(self, kind: str) -> None:
        self._taken[kind] += 1

    def give_back(self, kind: str) -> None:
        self._taken[kind] -= 1


class RefuseRequests:
    """ASGI middleware, outermost: refuses while there is no place."""

    def __init__(self, app: ASGIApp, *, places: Places) -> None:
        self._app = app
        self._places = places

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = _kind(scope)
        full = kind is not None and self._places.full(kind)
        await (_REFUSAL if full else self._app)(scope, receive, send)


class LimitRequests:
    """ASGI middleware, inside of the body's wall: takes a place, or refuses where others were faster."""

    def __init__(self, app: ASGIApp, *, places: Places) -> None:
        self._app = app
        self._places = places

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = _kind(scope)
        if kind is None:
            await self._app(scope, receive, send)
            return
        if self._places.full(kind):
            await _REFUSAL(scope, receive, send)
            return
        self._places.take(kind)
        try:
            await self._app(scope, receive, send)
        finally:
            self._places.give_back(kind)


def _kind(scope: Scope) -> str | None:
    """Which places a request takes; None where it needs none."""
    if scope["type"] != "http":
        return None
    path = scope["path"]
    if path in _FREE_PATHS or path.startswith(_FREE_PREFIX) or path.endswith(_FREE_SUFFIXES):
        return None
    return "submissions" if _SUBMISSION.fullmatch(f"{scope['method']} {path}") else "requests"
