"""Measured shots are ended beside the next one's measurement: a process takes milliseconds to go."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

from workers.plan import Planned
from workers.shot import Shot


class Endings:
    """At most one is under way when `add` returns; none when the context is left. One thread uses it."""

    def __init__(self, done: Callable[[Planned, Shot], None]) -> None:
        """`done` is called for each ended shot, in order, by the thread that uses this."""
        self._done = done
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="end")
        self._under_way: deque[tuple[Planned, Shot, Future[None]]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._pool:
            self._finish(leave=0)

    def add(self, planned: Planned, shot: Shot, *, wait: bool) -> None:
        """End the shot; `wait`: the next one depends on what became of it."""
        self._under_way.append((planned, shot, self._pool.submit(shot.close)))
        self._finish(leave=0 if wait else 1)

    def _finish(self, *, leave: int) -> None:
        while len(self._under_way) > leave:
            planned, shot, ended = self._under_way.popleft()
            ended.result()
            self._done(planned, shot)
