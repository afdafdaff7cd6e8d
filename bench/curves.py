"""What a tuning run found and when: improvements over time, and how soon a quality was reached. Pure."""

import dataclasses
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One trial as the tuner saw it."""

    #: Since the run was started, its start-up included.
    secs: float
    #: None where it failed.
    latency_secs: float | None
    #: Whatever finds its trace again.
    trace: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """From `secs` on, after `trials` trials, this was the best."""

    trials: int
    secs: float
    latency_secs: float
    trace: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of one side from its start to its result; what is cached and what the tables are made of."""

    #: `stock` or `ours`.
    side: str
    workload: str
    seed: int
    #: Asked for.
    trials: int
    #: Trials that were measured or failed.
    trials_done: int
    wall_secs: float
    #: Of all processes of the run, user and system.
    cpu_secs: float
    #: Until the first trial was known.
    first_secs: float | None
    points: tuple[Point, ...]
    #: The trace that a consumer gets in the end.
    final: Any
    outcomes: dict[str, int]
    stage_secs: dict[str, float]

    def as_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, obj: Mapping[str, Any]) -> Self:
        return cls(**{**obj, "points": tuple(Point(**point) for point in obj["points"])})


def improvements(trials: Iterable[Measured]) -> list[Point]:
    """The trials, in the order in which they were known, that were better than all before."""
    points: list[Point] = []
    best = math.inf
    for number, trial in enumerate(trials, start=1):
        if trial.latency_secs is not None and trial.latency_secs < best:
            best = trial.latency_secs
            points.append(
                Point(trials=number, secs=trial.secs, latency_secs=best, trace=trial.trace),
            )
    return points


def thinned(points: Sequence[Point], *, at_most: int) -> list[Point]:
    """Of the points of one moment the best; then those of the largest steps, the first and last always."""
    by_moment = {point.secs: point for point in points}
    kept = list(by_moment.values())
    while len(kept) > max(2, at_most):
        smallest = min(
            range(1, len(kept) - 1), key=lambda index: kept[index - 1].latency_secs / kept[index].latency_secs
        )
        del kept[smallest]
    return kept


def first_reaching(points: Iterable[Point], limit_secs: float) -> Point | None:
    """The first point at least as fast as `limit_secs`."""
    return next((point for point in points if point.latency_secs <= limit_secs), None)


def median_or_none(values: Sequence[float | None]) -> float | None:
    """The median, where what was never reached counts as infinite; None where that is the median."""
    if not values:
        return None
    median = statistics.median(math.inf if value is None else value for value in values)
    return median if math.isfinite(median) else None


def geometric_mean(values: Sequence[float]) -> float | None:
    return statistics.geometric_mean(values) if values else None
