"""One tuner replica's Prometheus metrics and probes. Jobs, trials and searches are counted by the API."""

import time
from collections.abc import Callable, Iterator, Sized
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class TunerMetrics:
    """Written by the loop's thread and that of the results, read by the probes' threads."""

    def __init__(self, *, leases: Callable[[], Sized], stuck_secs: float) -> None:
        self.registry = CollectorRegistry()
        self._stuck_secs = stuck_secs
        self._turned_at = time.monotonic()
        #: What keeps it from a tick; None: nothing.
        self._waits_for: str | None = "the first tick has not ended"
        self._tick_secs = Histogram(
            "tilefarm_tuner_tick_duration_seconds",
            "Duration of a tick of the loop",
            registry=self.registry,
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
        )
        self._outages = Counter(
            "tilefarm_tuner_database_away_total",
            "Ticks that ended because the database did not answer",
            registry=self.registry,
        )
        self._stage_secs = Counter(
            "tilefarm_tuner_stage_seconds",
            "Seconds spent, by stage of the work: parts of a tick, results recorded, searches' children",
            ["stage"],
            registry=self.registry,
        )
        held = Gauge("tilefarm_tuner_leases", "Searches that this replica leases", registry=self.registry)
        held.set_function(lambda: len(leases()))

    @contextmanager
    def tick(self) -> Iterator[None]:
        """Around one tick; only one that ended well is timed."""
        started = time.monotonic()
        yield
        self._turned_at = time.monotonic()
        self._waits_for = None
        self._tick_secs.observe(self._turned_at - started)

    def spent(self, stage: str, secs: float) -> None:
        self._stage_secs.labels(stage).inc(secs)

    def database_away(self) -> None:
        self.waits_for("the database does not answer")
        self._outages.inc()

    def waits_for(self, what: str) -> None:
        """The loop is well, and waits."""
        self._turned_at = time.monotonic()
        self._waits_for = what

    def healthy(self) -> str | None:
        silent_secs = time.monotonic() - self._turned_at
        return f"the loop has not turned for {silent_secs:.0f} s" if silent_secs > self._stuck_secs else None

    def ready(self) -> str | None:
        return self._waits_for or self.healthy()
