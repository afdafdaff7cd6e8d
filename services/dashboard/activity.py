"""When a worker was busy, from the trials that it has done: bars of a timeline. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from db.load import Work

#: Seconds of a trial in which the device was not at work on it.
_IDLE_STAGES = frozenset({"wait", "queue", "search"})
_MEASURING_STAGES = frozenset({"measure", "check", "load"})
SPAN_SECS = 1800.0
BARS = 90


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """Shares of each bar's seconds, the oldest bar first; together at most 1."""

    building: Sequence[float]
    measuring: Sequence[float]

    @property
    def busy(self) -> float:
        """Share of the whole span."""
        return (sum(self.building) + sum(self.measuring)) / len(self.building)


def activity(works: Iterable[Work], *, span_secs: float = SPAN_SECS, bars: int = BARS) -> dict[str, Activity]:
    """By worker. What was measured stands at a trial's end, what was built before it."""
    width = span_secs / bars
    building: dict[str, list[float]] = defaultdict(lambda: [0.0] * bars)
    measuring: dict[str, list[float]] = defaultdict(lambda: [0.0] * bars)
    for work in works:
        measured = sum(secs for name, secs in work.stage_secs.items() if name in _MEASURING_STAGES)
        busy = sum(secs for name, secs in work.stage_secs.items() if name not in _IDLE_STAGES)
        end = span_secs - work.done_ago_secs
        _fill(measuring[work.worker_id], end - measured, end, width)
        _fill(building[work.worker_id], end - busy, end - measured, width)
    return {
        worker: Activity(
            building=[
                min(secs / width, max(0.0, 1 - measured / width))
                for secs, measured in zip(building[worker], measuring[worker], strict=True)
            ],
            measuring=[min(1.0, secs / width) for secs in measuring[worker]],
        )
        for worker in building.keys() | measuring.keys()
    }


def _fill(bars: list[float], start: float, end: float, width: float) -> None:
    """Add the seconds between start and end to the bars that they fall into."""
    first, last = max(0, int(start // width)), min(len(bars) - 1, int(end // width))
    for bar in range(first, last + 1):
        bars[bar] += max(0.0, min(end, (bar + 1) * width) - max(start, bar * width))
