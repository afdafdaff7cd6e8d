"""What a RemoteDatabase was asked, and what came of it. It measures; it decides nothing."""

import dataclasses
import threading
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    #: Questions answered by a record.
    hits: int = 0
    #: Questions for which the service has no record.
    misses: int = 0
    #: Questions that went wrong: the service was away, or its record was refused.
    errors: int = 0
    #: Questions never asked: scheduled already, or a target that the service does not tune for.
    skipped: int = 0
    #: Seconds that compiles spent in tilefarm.
    total_secs: float = 0.0


class Counters:
    """Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stats = Stats()

    def add(
        self, *, hits: int = 0, misses: int = 0, errors: int = 0, skipped: int = 0, total_secs: float = 0.0
    ) -> None:
        with self._lock:
            now = self._stats
            self._stats = dataclasses.replace(
                now,
                hits=now.hits + hits,
                misses=now.misses + misses,
                errors=now.errors + errors,
                skipped=now.skipped + skipped,
                total_secs=now.total_secs + total_secs,
            )

    def snapshot(self) -> Stats:
        with self._lock:
            return self._stats
