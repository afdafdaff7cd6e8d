"""Stock's runs and ours on one workload, made into the figures of a table. Pure: it runs nothing."""

import dataclasses
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from bench.curves import Point, Run, first_reaching, median_or_none

SIDES = ("stock", "ours")
#: Of stock's best, as throughput: 0.9 is reached at a latency of best / 0.9.
QUALITIES = (0.90, 0.95, 1.00)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A run, and what the careful evaluator says of what it found."""

    run: Run
    #: The run's points, as the careful evaluator times them; the last one is what was published.
    curve: tuple[Point, ...]
    final_secs: float
    flushed_secs: float | None
    #: Relative to the untuned module's output.
    difference: float

    @classmethod
    def from_json(cls, obj: Mapping[str, Any]) -> Self:
        curve = tuple(Point(**point) for point in obj["curve"])
        return cls(**{**obj, "run": Run.from_json(obj["run"]), "curve": curve})


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All runs of both sides on one workload under the same conditions."""

    workload: str
    flops: float
    trials: int
    #: Ours: options of the job beyond the defaults.
    options: dict[str, Any]
    target: dict[str, Any]
    machine: str
    commit: str
    untuned_secs: float
    runs: tuple[Judged, ...]

    def as_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, obj: Mapping[str, Any]) -> Self:
        return cls(**{**obj, "runs": tuple(Judged.from_json(run) for run in obj["runs"])})

    def of(self, side: str) -> list[Judged]:
        return [judged for judged in self.runs if judged.run.side == side]

    @property
    def seeds(self) -> int:
        return len({judged.run.seed for judged in self.runs})

    def median(self, side: str, figure: Callable[[Judged], float | None]) -> float | None:
        return median_or_none([figure(judged) for judged in self.of(side)])

    def ratio(self, figure: Callable[[Judged], float | None]) -> float | None:
        """Stock's median over ours: above 1 ours is better, for whatever is better when smaller."""
        stock, ours = (self.median(side, figure) for side in SIDES)
        return stock / ours if stock is not None and ours else None

    def spread(self, side: str, figure: Callable[[Judged], float]) -> tuple[float, float]:
        values = [figure(judged) for judged in self.of(side)]
        return min(values), max(values)

    def limit_secs(self, quality: float) -> float:
        """The latency that counts as `quality` of stock's best: its median final."""
        return statistics.median(final_secs(judged) for judged in self.of("stock")) / quality

    def reached(self, side: str, quality: float) -> list[Point | None]:
        """For each seed the first point of the careful curve that reached it."""
        limit_secs = self.limit_secs(quality)
        return [first_reaching(judged.curve, limit_secs) for judged in self.of(side)]

    def secs_to(self, side: str, quality: float) -> float | None:
        return median_or_none([None if p is None else p.secs for p in self.reached(side, quality)])

    def trials_to(self, side: str, quality: float) -> float | None:
        return median_or_none([None if p is None else p.trials for p in self.reached(side, quality)])


def wall_secs(judged: Judged) -> float:
    return judged.run.wall_secs


def cpu_secs(judged: Judged) -> float:
    return judged.run.cpu_secs


def secs_per_trial(judged: Judged) -> float | None:
    done = judged.run.trials_done
    return judged.run.wall_secs / done if done else None


def final_secs(judged: Judged) -> float:
    return judged.final_secs


def flushed_secs(judged: Judged) -> float | None:
    return judged.flushed_secs


def careful_curve(
    run: Run, latencies_secs: Sequence[float], points: Sequence[Point], final_secs: float
) -> tuple[Point, ...]:
    """`points` with careful latencies, and what was published, known when the run ended."""
    careful = [
        dataclasses.replace(point, latency_secs=secs, trace=None)
        for point, secs in zip(points, latencies_secs, strict=True)
    ]
    last = Point(trials=run.trials_done, secs=run.wall_secs, latency_secs=final_secs, trace=None)
    return (*careful, last)
