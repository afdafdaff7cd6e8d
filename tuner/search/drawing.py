"""Random programs, each design space in its turn: none is left out because a coin never fell on it.

TVM draws the space of each program by a coin (SampleInitPopulation); of a dozen spaces several are then seen
late, or never at a small budget.
"""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from tuner.search.genome import Sketch, sketch_of
from tuner.search.replay import Replayer
from tuner.trace import canonical_text

#: Draws from one space until one passes its postprocs.
_TRIES = 4
_MAX_STATE = 1 << 30


def sketches_of(design_spaces: Sequence[Any]) -> tuple[Sketch, ...]:
    """Of TVM schedules, without the instructions that nothing needs, as TVM's strategies take them."""
    traces = [schedule.trace.simplified(remove_postproc=True) for schedule in design_spaces]
    return tuple(sketch_of(canonical_text(trace)) for trace in traces)


class Drawing:
    """Draws from the sketches of design spaces."""

    def __init__(self, sketches: Sequence[Sketch], replay: Replayer, random: Random) -> None:
        self._sketches = sketches
        self._replay = replay
        self._random = random

    def draw(self, count: int, weights: Mapping[Sketch, float] | None = None) -> list[Any]:
        """At most `count` schedules after postprocs, from each space by its weight (None: alike)."""
        chosen = _shared_out(
            [1.0 if weights is None else weights[s] for s in self._sketches], count, self._random
        )
        drawn = (self._one(self._sketches[place]) for place in chosen)
        return [schedule for schedule in drawn if schedule is not None]

    def _one(self, sketch: Sketch) -> Any | None:
        for _ in range(_TRIES):
            schedule = self._replay.drawn(sketch, rand_state=self._random.randrange(1, _MAX_STATE))
            if schedule is not None:
                return schedule
        return None


def _shared_out(weights: Sequence[float], count: int, random: Random) -> list[int]:
    """`count` places, each as often as its weight says, give or take one: evenly spaced on their sum."""
    total = sum(weights)
    if count < 1 or total <= 0:
        return []
    step = total / count
    found: list[int] = []
    at, below = random.random() * step, 0.0
    for place, weight in enumerate(weights):
        below += weight
        while at < below and len(found) < count:
            found.append(place)
            at += step
    return found
