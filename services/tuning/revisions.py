"""Which jobs changed: told to watchers by their revision, at most so often. Ends are told at once."""

import threading
import time
from collections.abc import Collection


class Revisions:
    """Filled by any thread, emptied by the loop."""

    def __init__(self, *, secs: float) -> None:
        self._secs = secs
        self._lock = threading.Lock()
        self._changed: set[str] = set()
        self._told_at: dict[str, float] = {}

    def changed(self, job_ids: Collection[str]) -> None:
        with self._lock:
            self._changed.update(job_ids)

    def due(self) -> list[str]:
        """Changed jobs whose last telling lies long enough back; they count as told from now on."""
        now = time.monotonic()
        with self._lock:
            due = [j for j in self._changed if now - self._told_at.get(j, float("-inf")) >= self._secs]
            self._changed.difference_update(due)
            self._told_at = {j: at for j, at in self._told_at.items() if now - at < self._secs}
            self._told_at.update(dict.fromkeys(due, now))
            return due
