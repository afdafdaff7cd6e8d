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
class Pair:
    """One seed of one workload: stock's run and ours on one machine, their finals timed together."""

    workload: str
    seed: int
    trials: int
    flops: float
    #: Ours: options of the job beyond the defaults.
    options: dict[str, Any]
    target: dict[str, Any]
    machine: str
    commit: str
    #: Stock's run is of an earlier hour.
    stock_cached: bool
    untuned_secs: float
    stock: Judged
    ours: Judged

    def as_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, obj: Mapping[str, Any]) -> Self:
        sides = {side: Judged.from_json(obj[side]) for side in SIDES}
        return cls(**{**obj, **sides})

    def of(self, side: str) -> Judged:
        return self.stock if side == "stock" else self.ours

    def reached(self, side: str, quality: float) -> Point | None:
        """The first point of the careful curve as good as `quality` of what stock found with this seed."""
        return first_reaching(self.of(side).curve, self.stock.final_secs / quality)

    def without_traces(self) -> Self:
        """Small enough to be kept beside the tables: what the tables need."""
        return dataclasses.replace(self, stock=_bare(self.stock), ours=_bare(self.ours))


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The pairs of one workload under the same conditions, one a seed; of one machine or of several."""

    pairs: tuple[Pair, ...]

    @property
    def workload(self) -> str:
        return self.pairs[0].workload

    @property
    def trials(self) -> int:
        return self.pairs[0].trials

    @property
    def flops(self) -> float:
        return self.pairs[0].flops

    @property
    def untuned_secs(self) -> float:
        return statistics.median(pair.untuned_secs for pair in self.pairs)

    def of(self, side: str) -> list[Judged]:
        return [pair.of(side) for pair in self.pairs]

    def median(self, side: str, figure: Callable[[Judged], float | None]) -> float | None:
        return median_or_none([figure(judged) for judged in self.of(side)])

    def ratio(self, figure: Callable[[Judged], float | None]) -> float | None:
        """The median of the pairs' ratios, stock over ours: above 1 ours is better, where less is better."""
        return median_or_none([_ratio(figure(pair.stock), figure(pair.ours)) for pair in self.pairs])

    def spread(self, figure: Callable[[Judged], float | None]) -> tuple[float, float] | None:
        """The least and the largest of the pairs' ratios."""
        ratios = [_ratio(figure(pair.stock), figure(pair.ours)) for pair in self.pairs]
        known = [ratio for ratio in ratios if ratio is not None]
        return (min(known), max(known)) if known else None

    def reached(self, side: str, quality: float) -> list[Point | None]:
        return [pair.reached(side, quality) for pair in self.pairs]

    def secs_to(self, side: str, quality: float) -> float | None:
        return median_or_none([None if p is None else p.secs for p in self.reached(side, quality)])

    def trials_to(self, side: str, quality: float) -> float | None:
        return median_or_none([None if p is None else p.trials for p in self.reached(side, quality)])

    def ratio_to(self, quality: float) -> float | None:
        """Seconds to `quality`, stock over ours: the median over the pairs; 0 where ours never got there.

        Stock always does, at the latest with what it published.
        """
        ratios = []
        for pair in self.pairs:
            stock, ours = (pair.reached(side, quality) for side in SIDES)
            ratios.append(0.0 if ours is None or stock is None else stock.secs / ours.secs)
        return statistics.median(ratios) or None


def _ratio(stock: float | None, ours: float | None) -> float | None:
    return stock / ours if stock is not None and ours else None


def _bare(judged: Judged) -> Judged:
    points = tuple(dataclasses.replace(point, trace=None) for point in judged.run.points)
    return dataclasses.replace(judged, run=dataclasses.replace(judged.run, points=points, final=None))


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
