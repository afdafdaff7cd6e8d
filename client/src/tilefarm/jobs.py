"""A job that runs on the service: what became of it, and what one may ask of it.

A snapshot is a job view as the API gives it; `watch` yields each new one, from events where they can be had
and by polling where not.
"""

import json
import math
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tilefarm import events
from tilefarm.errors import (
    AuthError,
    BadAnswerError,
    DeadlineError,
    JobFailedError,
    ProblemError,
    ServiceError,
)
from tilefarm.http import READING_SECS, HttpSession

ENDED = frozenset({"succeeded", "failed", "cancelled"})
_POLL_SECS = 1.0
#: Longer than the service's heartbeats are apart.
_SILENCE_SECS = 45.0
#: How long the service may be away before `watch` gives up.
_PATIENCE_SECS = 120.0


class Job:
    def __init__(self, http: HttpSession, view: dict[str, Any]) -> None:
        self._http = http
        self._view: dict[str, Any] = {}
        self._take(view)

    def __repr__(self) -> str:
        return f"Job(id={self.id!r}, state={self.state!r})"

    @property
    def id(self) -> str:
        return str(self._view["id"])

    @property
    def state(self) -> str:
        return str(self._view["state"])

    @property
    def ended(self) -> bool:
        return self.state in ENDED

    @property
    def view(self) -> dict[str, Any]:
        """The last snapshot."""
        return self._view

    @property
    def url(self) -> str:
        return f"{self._http.url}/v1/jobs/{self.id}"

    @property
    def tasks(self) -> list[dict[str, Any]]:
        found = self._view.get("tasks")
        return found if isinstance(found, list) else []

    @property
    def warnings(self) -> list[dict[str, Any]]:
        found = self._view.get("warnings")
        return found if isinstance(found, list) else []

    def refresh(self) -> "Job":
        self._take(self._http.get(self._path()))
        return self

    def cancel(self) -> "Job":
        return self._verb("cancel")

    def pause(self) -> "Job":
        return self._verb("pause")

    def resume(self) -> "Job":
        return self._verb("resume")

    def extend(self, *, max_trials: int) -> "Job":
        """Sets the job's budget to `max_trials` altogether."""
        return self.change(max_trials=max_trials)

    def change(
        self, *, max_trials: int | None = None, priority: int | None = None, name: str | None = None
    ) -> "Job":
        fields = {"max_trials": max_trials, "priority": priority, "name": name}
        self._http.patch(self._path(), {key: value for key, value in fields.items() if value is not None})
        return self.refresh()

    def best(self) -> list[dict[str, Any]]:
        """One {"task", "record", "trace", "trace_python"} per task that has a record."""
        self.refresh()
        return [
            {"task": task, **self._http.get(f"/v1/tasks/{task['id']}/record", wait_secs=READING_SECS)}
            for task in self.tasks
            if task.get("record_id") is not None
        ]

    def wait(self, *, timeout_secs: float | None = None) -> "Job":
        """Until the job has ended. Raises JobFailedError where it failed or was cancelled, DeadlineError."""
        for _ in self.watch(timeout_secs=timeout_secs):
            pass
        return self.require_success()

    def require_success(self) -> "Job":
        if self.state != "succeeded":
            raise JobFailedError(self.id, self.state, self._view.get("error"))
        return self

    def watch(self, *, timeout_secs: float | None = None) -> Iterator[dict[str, Any]]:
        """Each new snapshot, until the job has ended.

        The service may be away for two minutes meanwhile; then its error is raised. DeadlineError when
        `timeout_secs` are over.
        """
        clock = _Clock(timeout_secs)
        revision = object()
        while True:
            for view in self._snapshots(clock):
                clock.heard()
                self._take(view)
                if view.get("revision") != revision:
                    revision = view.get("revision")
                    yield view
            if self.ended:
                return
            if clock.remaining_secs() <= 0:
                raise DeadlineError(f"job {self.id} is {self.state} after {timeout_secs} s")

    def _snapshots(self, clock: "_Clock") -> Iterator[dict[str, Any]]:
        """Snapshots of one connection; when it breaks, one by polling."""
        try:
            yield from self._events(clock)
        except AuthError:
            raise
        except (ServiceError, ValueError) as error:
            yield from self._polled(clock, error)
        else:
            if not self.ended:  # the stream ended early: do not spin
                yield from self._polled(clock, BadAnswerError("the stream of events ended early"))

    def _events(self, clock: "_Clock") -> Iterator[dict[str, Any]]:
        headers = {"Accept": "text/event-stream"}
        if self._view.get("revision") is not None:
            headers["Last-Event-ID"] = str(self._view["revision"])
        path = f"{self._path()}/events"
        silence_secs = min(_SILENCE_SECS, max(clock.remaining_secs(), 0.01))
        with self._http.lines(path, headers=headers, read_timeout_secs=silence_secs) as lines:
            for event in events.parse(clock.until_over(lines)):
                if event.name not in ("job", "end"):
                    continue
                view = json.loads(event.data)
                if isinstance(view, dict) and "state" in view:
                    yield view
                if event.name == "end":
                    yield self._http.get(self._path())
                    return

    def _polled(self, clock: "_Clock", cause: Exception) -> Iterator[dict[str, Any]]:
        time.sleep(max(0.0, min(_POLL_SECS, clock.remaining_secs())))
        try:
            yield self._http.get(self._path())
        except ServiceError as error:
            if isinstance(error, AuthError) or (isinstance(error, ProblemError) and not error.is_outage):
                raise
            if clock.silent_secs() > _PATIENCE_SECS:
                raise error from cause

    def _verb(self, verb: str) -> "Job":
        answer = self._http.post(f"{self._path()}:{verb}")
        return self._took(answer) if "state" in answer else self.refresh()

    def _took(self, view: dict[str, Any]) -> "Job":
        self._take(view)
        return self

    def _take(self, view: dict[str, Any]) -> None:
        if not isinstance(view.get("id"), str | int) or not isinstance(view.get("state"), str):
            raise BadAnswerError("the answer is no job")
        self._view = {**self._view, **view}

    def _path(self) -> str:
        return f"/v1/jobs/{self.id}"


class _Clock:
    """When to stop watching."""

    def __init__(self, timeout_secs: float | None, *, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._heard_at = now()
        self._deadline = None if timeout_secs is None else now() + timeout_secs

    def heard(self) -> None:
        self._heard_at = self._now()

    def silent_secs(self) -> float:
        return self._now() - self._heard_at

    def remaining_secs(self) -> float:
        return math.inf if self._deadline is None else self._deadline - self._now()

    def until_over(self, lines: Iterable[str]) -> Iterator[str]:
        """Heartbeats are lines too, so a silent job is left in time."""
        for line in lines:
            yield line
            if self.remaining_secs() <= 0:
                return
