"""How a job's weighted latency fell, and the small step lines that show it. Pure: rows in, steps out."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from db.curves import Improvement
from db.tasks import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """From this moment on the job had this weighted latency."""

    #: The improvement that made it.
    trial_id: int
    at: datetime
    latency_secs: float


def weighted_history(tasks: Sequence[Task], improvements: Iterable[Improvement]) -> list[Step]:
    """Sum of weight * best latency after each improvement, once every task has a latency.

    Tasks that share a search improve together. The untuned module counts from the start.
    """
    best = {task.search_id: task.untuned_latency_secs for task in tasks}
    steps: list[Step] = []
    for improvement in sorted(improvements, key=lambda each: (each.done_at, each.trial_id)):
        if improvement.search_id not in best:
            continue
        known = best[improvement.search_id]
        if known is not None and known <= improvement.latency_secs:
            continue
        best[improvement.search_id] = improvement.latency_secs
        total = _weighted([(task.weight, best[task.search_id]) for task in tasks])
        if total is not None:
            steps.append(Step(trial_id=improvement.trial_id, at=improvement.done_at, latency_secs=total))
    return steps


def sparkline(values: Sequence[float], *, width: float, height: float) -> str:
    """An SVG path of equally wide steps that fills the box, logarithmic; empty for fewer than two values."""
    if len(values) < 2:
        return ""
    logs = [math.log(value) for value in values]
    low, high = min(logs), max(logs)
    spread = (high - low) or 1.0
    places = [
        (index * width / len(values), 1 + (high - value) / spread * (height - 2))
        for index, value in enumerate(logs)
    ]
    first = places[0]
    moves = "".join(f"H{x:.1f}V{y:.1f}" for x, y in places[1:])
    return f"M{first[0]:.1f} {first[1]:.1f}{moves}H{width:.1f}"


def _weighted(parts: Sequence[tuple[float, float | None]]) -> float | None:
    known = [weight * latency for weight, latency in parts if latency is not None]
    return sum(known) if len(known) == len(parts) else None
