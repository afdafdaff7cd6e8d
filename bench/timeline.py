"""A run's trials made into a budget of its wall-clock: where each second went. Pure."""

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from bench.farm import epoch_secs
from db.states import Purpose

#: Stages of a candidate that hold the device, and those that hold a build slot.
DEVICE = ("load", "check", "measure")
BUILDING = ("replay", "build")


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments:
    """Seconds since the start of the run; absent where it never came to it."""

    ready: float
    submitted: float
    baseline: float | None
    first_result: float | None
    last_result: float | None
    ended: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Wall-clock seconds, by what the run was doing; they add up to `wall_secs`."""

    wall_secs: float
    parts: dict[str, float]


def moments(
    trials: Sequence[Mapping[str, Any]], *, began: float, ready: float, submitted: float, ended: float
) -> Moments:
    """`began` and the others in seconds since the epoch."""
    baseline = _done([trial for trial in trials if trial["purpose"] == Purpose.BASELINE])
    search = _done([trial for trial in trials if trial["purpose"] == Purpose.SEARCH])
    return Moments(
        ready=ready - began,
        submitted=submitted - began,
        baseline=min(baseline) - began if baseline else None,
        first_result=min(search) - began if search else None,
        last_result=max(search) - began if search else None,
        ended=ended - began,
    )


def budget(trials: Sequence[Mapping[str, Any]], at: Moments, *, cores: int) -> Budget:
    """Between baseline and last result, building counts shared over the cores and measuring as it is.

    What is left there is idle: neither a build slot's worth of work nor the device was busy. A trial that
    was ended from outside (cut off by the alarm) tells no stages: it counts as the mean of those that do.
    """
    baseline = at.baseline if at.baseline is not None else at.submitted
    last = at.last_result if at.last_result is not None else baseline
    search = [trial for trial in trials if trial["purpose"] == Purpose.SEARCH]
    untold = len(search) / max(1, sum(bool(trial["stage_secs"]) for trial in search))
    building = stage_sum(search, BUILDING) * untold / cores
    measuring = stage_sum(search, DEVICE) * untold
    parts = {
        "start-up of the service": at.ready,
        "submission": at.submitted - at.ready,
        "baseline and reference": baseline - at.submitted,
        f"building (over {cores} cores)": building,
        "measuring": measuring,
        "neither building nor measuring": last - baseline - building - measuring,
        "confirmation and end": at.ended - last,
    }
    return Budget(wall_secs=at.ended, parts=parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunks:
    """What the worker did with the chunks it was sent."""

    count: int
    trials: int
    #: From the start of each chunk to its end.
    busy_secs: float
    #: Between one chunk's end and the next one's start: nobody built or measured.
    between_secs: float
    longest_between_secs: float


def chunks(log: Iterable[str]) -> Chunks:
    """From the lines of a worker's log."""
    events = [json.loads(line) for line in log if line.startswith("{")]
    at = {
        name: [event for event in events if event["event"] == name]
        for name in ("chunk_started", "chunk_done")
    }
    ended = {event["chunk_id"]: epoch_secs(event["timestamp"]) for event in at["chunk_done"]}
    spans = sorted(
        (epoch_secs(event["timestamp"]), ended[event["chunk_id"]], int(event["trials"]))
        for event in at["chunk_started"]
        if event["chunk_id"] in ended
    )
    between = [later[0] - earlier[1] for earlier, later in pairwise(spans)]
    return Chunks(
        count=len(spans),
        trials=sum(trials for _, _, trials in spans),
        busy_secs=sum(end - start for start, end, _ in spans),
        between_secs=sum(between),
        longest_between_secs=max(between, default=0.0),
    )


def stage_sum(trials: Iterable[Mapping[str, Any]], stages: Sequence[str]) -> float:
    return sum(float((trial["stage_secs"] or {}).get(stage, 0.0)) for trial in trials for stage in stages)


def gaps(trials: Sequence[Mapping[str, Any]], *, at_least_secs: float = 0.5) -> list[float]:
    """Pauses between one result of the search and the next that are longer than a candidate explains."""
    times = sorted(_done([trial for trial in trials if trial["purpose"] == Purpose.SEARCH]))
    pauses = [after - before for before, after in pairwise(times)]
    usual = statistics.median(pauses) if pauses else 0.0
    return [pause for pause in pauses if pause >= max(at_least_secs, 4 * usual)]


def _done(trials: Iterable[Mapping[str, Any]]) -> list[float]:
    return [epoch_secs(trial["done_at"]) for trial in trials if trial["done_at"] is not None]
