"""The attempts this worker holds, and the children that work on them: what a drop request kills.

Shared by the measuring thread, the build threads and the heartbeat thread.
"""

import threading
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from sandbox.child import Child


class Attempt(NamedTuple):
    """One delivery of a trial."""

    trial_id: int
    attempt: int


class Holding:
    """Thread-safe; a dropped attempt stays dropped until it is released."""

    def __init__(self) -> None:
        # Re-entrant: a signal handler drops everything in whatever thread it interrupts.
        self._lock = threading.RLock()
        self._held: dict[Attempt, bool] = {}
        self._children: dict[Child, frozenset[Attempt]] = {}
        self._bests: Mapping[int, float] = {}
        self._let_go: dict[Attempt, None] = {}
        self._stopped = False

    def take(self, attempts: Iterable[Attempt]) -> None:
        with self._lock:
            for attempt in attempts:
                self._held[attempt] = self._stopped

    def release(self, attempts: Iterable[Attempt]) -> None:
        with self._lock:
            for attempt in attempts:
                self._held.pop(attempt, None)

    def held(self) -> list[Attempt]:
        """What the heartbeat tells: held and not dropped."""
        with self._lock:
            return [attempt for attempt, dropped in self._held.items() if not dropped]

    def drop(self, attempts: Iterable[Attempt]) -> None:
        """Stop working on these: children that work for no other attempt are killed at once."""
        with self._lock:
            for attempt in attempts:
                if attempt in self._held:
                    self._held[attempt] = True
            self._kill_useless()

    def drop_all(self) -> None:
        """The worker ends: what it holds, and whatever it still takes, is dropped."""
        with self._lock:
            self._stopped = True
            self._let_go |= dict.fromkeys(self.held())
            self._held = dict.fromkeys(self._held, True)
            self._kill_useless()

    @property
    def stopped(self) -> bool:
        """The worker ends."""
        return self._stopped

    @property
    def let_go(self) -> list[Attempt]:
        """What was held when the worker ended."""
        return list(self._let_go)

    def dropped(self, attempt: Attempt) -> bool:
        with self._lock:
            return self._held.get(attempt, True)

    def note_bests(self, latency_secs: Mapping[int, float]) -> None:
        """The best of each search whose trials are held, as the farm has it now."""
        self._bests = latency_secs

    def best_of(self, search_id: int) -> float | None:
        """Seconds; None where the farm has told none."""
        return self._bests.get(search_id)

    def attach(self, child: Child, attempts: Collection[Attempt]) -> None:
        """`child` works for `attempts` from now on; it is killed at once if all of them were dropped."""
        with self._lock:
            self._children[child] = frozenset(attempts)
            self._kill_useless()

    def detach(self, child: Child) -> None:
        with self._lock:
            self._children.pop(child, None)

    def _kill_useless(self) -> None:
        for child, attempts in self._children.items():
            if all(self._held.get(attempt, True) for attempt in attempts):
                child.kill()
