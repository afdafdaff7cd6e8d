"""What a RemoteDatabase was asked, and what came of it. It measures; it decides nothing."""

import threading
from collections import defaultdict
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    #: Questions answered by a record.
    hits: int = 0
    #: Questions answered by a near record (tilefarm.near), by a rule that was asked for.
    near: int = 0
    #: Questions for which the service has no record.
    misses: int = 0
    #: Questions that went wrong: the service was away, or its record was refused.
    errors: int = 0
    #: Questions never asked: scheduled already, or a target that the service does not tune for.
    skipped: int = 0
    #: Seconds that compiles spent in tilefarm.
    total_secs: float = 0.0

    def __str__(self) -> str:
        return (
            f"{self.hits} hits, {self._near()}{self.misses} misses, {self.errors} errors, "
            f"{self.skipped} skipped, {self.total_secs:.3f} s in tilefarm"
        )

    def _near(self) -> str:
        return f"{self.near} near hits, " if self.near else ""

    def __add__(self, other: "Stats") -> "Stats":
        return Stats(
            hits=self.hits + other.hits,
            near=self.near + other.near,
            misses=self.misses + other.misses,
            errors=self.errors + other.errors,
            skipped=self.skipped + other.skipped,
            total_secs=self.total_secs + other.total_secs,
        )


class Counters:
    """Thread-safe."""

    def __init__(self, *, total: "Counters | None" = None) -> None:
        """What is added here is added to `total` as well."""
        self._lock = threading.Lock()
        self._counts: defaultdict[str, float] = defaultdict(float)
        self._total = total

    def add(self, **counts: float) -> None:
        """`counts` are fields of Stats."""
        with self._lock:
            for name, count in counts.items():
                self._counts[name] += count
        if self._total is not None:
            self._total.add(**counts)

    def restart(self) -> "Counters":
        """From zero, as after a fork; what adds to it still does."""
        self._lock, self._counts = threading.Lock(), defaultdict(float)
        return self

    def snapshot(self) -> Stats:
        with self._lock:
            counts = dict(self._counts)
        return Stats(total_secs=counts.pop("total_secs", 0.0), **{name: int(n) for name, n in counts.items()})
