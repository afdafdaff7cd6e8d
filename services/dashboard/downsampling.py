"""Fewer dots that look the same: a search of 100,000 trials as at most so many points. Pure.

Every improvement stays; of the rest each stretch keeps its fastest, its slowest and a failure, which is the
envelope and where failures lie.
"""

from collections.abc import Iterable, Sequence
from operator import itemgetter

from db.curves import Point
from db.states import Outcome

MAX_POINTS = 2000
#: Dots that a stretch may keep: fastest, slowest, a trial without a time.
_PER_STRETCH = 3


def improving(points: Iterable[Point]) -> list[Point]:
    """The points that measured ok and faster than all before them."""
    best: float | None = None
    found = []
    for point in points:
        if point.outcome is not Outcome.OK or point.latency_secs is None:
            continue
        if best is None or point.latency_secs < best:
            best = point.latency_secs
            found.append(point)
    return found


def downsample(points: Sequence[Point], *, max_points: int = MAX_POINTS) -> list[Point]:
    """At most `max_points` of the points, in their order.

    Where the improvements alone are more, they are taken evenly; the first and the last stay.
    """
    if len(points) <= max_points:
        return list(points)
    kept = {point.trial_id: point for point in _even(improving(points), max_points)}
    stretches = (max_points - len(kept)) // _PER_STRETCH
    for number in range(stretches):
        start, end = number * len(points) // stretches, (number + 1) * len(points) // stretches
        for point in _telling(points[start:end]):
            kept[point.trial_id] = point
    return [point for point in points if point.trial_id in kept]


def _telling(stretch: Sequence[Point]) -> list[Point]:
    timed = [(point.latency_secs, point) for point in stretch if point.latency_secs is not None]
    untimed = [point for point in stretch if point.latency_secs is None]
    ends = [each(timed, key=itemgetter(0))[1] for each in (min, max)] if timed else []
    return [*ends, *untimed[:1]]


def _even(points: Sequence[Point], count: int) -> list[Point]:
    if len(points) <= count:
        return list(points)
    last = len(points) - 1
    return [points[round(index * last / (count - 1))] for index in range(count)]
