"""Times of programs drawn from every design space of a workload: searches can be played without a device.

A program that was not drawn takes what its nearest neighbours in its design space took, by the logarithms of
their tile factors. A playback says how a search behaves; how fast a kernel is, only a device says.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from bench.machine import this_machine
from bench.measuring import Measuring
from bench.suite import Workload
from tuner.search.drawing import Drawing, Space
from tuner.search.genome import Decision, Genome, genome_of
from tuner.search.known import Known
from tuner.search.programs import Programs
from tuner.search.replay import Replayer
from tuner.search.setup import SearchSetup
from workers.messages import MeasurePolicy

RECORDED = Path(__file__).parent / "recorded_programs"
_NEIGHBOURS = 4
#: An unknown program is no better than its neighbours, and a little worse than their mean.
_DOUBT = 1.03
_PASSES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """Seconds of programs by design space."""

    of_sketch: Mapping[str, tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]]
    exact: Mapping[Genome, float]

    @classmethod
    def read(cls, name: str, spaces: Sequence[Space]) -> Self:
        """Raises ValueError where the design spaces are no longer those that were recorded."""
        kept = json.loads((RECORDED / f"{name}.json").read_text())
        if kept["spaces"] != [_digest(space) for space in spaces]:
            raise ValueError(f"the design spaces of {name} have changed: `bench ablation --record {name}`")
        exact = {
            Genome(spaces[place].sketch, tuple(_frozen(each) for each in decisions)): secs
            for place, decisions, secs in kept["programs"]
        }
        rows: dict[str, list[tuple[list[float], float]]] = {}
        for genome, secs in exact.items():
            rows.setdefault(genome.sketch.text, []).append((_place(genome), math.log(secs)))
        return cls(
            of_sketch={
                text: (np.array([place for place, _ in found]), np.array([log for _, log in found]))
                for text, found in rows.items()
            },
            exact=exact,
        )

    @property
    def best_secs(self) -> float:
        return min(self.exact.values())

    def secs(self, trace: str) -> float:
        genome = genome_of(trace)
        if genome is not None and genome in self.exact:
            return self.exact[genome]
        if genome is None or genome.sketch.text not in self.of_sketch:
            return max(self.exact.values())
        places, logs = self.of_sketch[genome.sketch.text]
        distances = np.linalg.norm(places - np.array(_place(genome)), axis=1)
        nearest = np.argsort(distances)[:_NEIGHBOURS]
        weights = 1 / (distances[nearest] + 0.3) ** 2
        return _DOUBT * float(np.exp(weights @ logs[nearest] / weights.sum()))


def record(
    name: str, workload: Workload, setup: SearchSetup, spaces: Sequence[Space], device: Measuring, draws: int
) -> None:
    """Draw so many programs from each space, time each in several passes, keep the least."""
    known = Known()
    random = Random(0)
    drawing = Drawing(spaces, Programs(Replayer(setup.mod, setup.context), known), random)
    drawn = [each for each in drawing.draw(draws * len(spaces)) if each.genome is not None]
    traces = [json.dumps(each.genome.trace()) for each in drawn if each.genome is not None]
    policy = MeasurePolicy()
    passes = [
        [outcome.run_secs for outcome in device.outcomes(workload.module, traces, policy)]
        for _ in range(_PASSES)
    ]
    sketches = [space.sketch for space in spaces]
    programs = [
        [sketches.index(each.genome.sketch), each.genome.decisions, min(min(secs) for secs in found if secs)]
        for each, *found in zip(drawn, *passes, strict=True)
        if each.genome is not None and any(found)
    ]
    write(name, spaces, programs)


def write(name: str, spaces: Sequence[Space], programs: Sequence[Sequence[Any]]) -> None:
    """Programs are [place of the space, decisions, seconds]."""
    RECORDED.mkdir(exist_ok=True)
    head = json.dumps(
        {"machine": str(this_machine()), "spaces": [_digest(space) for space in spaces]}, indent=1
    )
    lines = ",\n  ".join(json.dumps(program) for program in programs)
    (RECORDED / f"{name}.json").write_text(f'{head[:-2]},\n "programs": [\n  {lines}\n ]\n}}\n')


def _digest(space: Space) -> str:
    return hashlib.sha256(space.sketch.text.encode()).hexdigest()[:16]


def _frozen(decision: Any) -> Decision:
    return tuple(decision) if isinstance(decision, list) else int(decision)


def _place(genome: Genome) -> list[float]:
    place: list[float] = []
    for decision in genome.decisions:
        if isinstance(decision, tuple):
            place += [math.log2(factor) for factor in decision]
        else:
            place.append(1.5 * decision)
    return place
