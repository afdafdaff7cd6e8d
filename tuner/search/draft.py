"""A cheap draft before full replay: trees over decisions rank many genomes, so that few need a schedule.

The cost model sees a program and costs its replay and its features; the draft model sees a trace's numbers
(AutoTVM's knobs; Chen et al., NeurIPS 2018). It is fitted anew for each round, on what was measured and on
what the cost model says of the programs that the round has replayed.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from statistics import fmean

import numpy as np
import numpy.typing as npt

from tuner.search.genome import Genome, Sketch, Variation

#: Share of children that are crossed before they are mutated, and that are mutated twice.
_CROSSED, _TWICE = 0.25, 0.3
#: Drafts of a generation for each genome that the model knows: what it cannot tell apart is not worth more.
_FOR_EACH_KNOWN = 4
#: A generation whose best drafts are better than those before by less is the last; scores are 1 at best.
_SETTLED = 0.01
#: Innermost factors of a tile that features tell apart.
_LEVELS = 5
_MIN_WEIGHT, _LEAST_SCORE = 0.1, 1e-3
_ROUNDS = 60
_PARAMETERS = {
    "max_depth": 6,
    "eta": 0.2,
    "min_child_weight": 0,
    "tree_method": "hist",
    "base_score": 0.0,
    "seed": 43,
    "nthread": 1,
    "verbosity": 0,
}

Scored = Mapping[Genome, float]


class DraftModel:
    """Scores of genomes, as those it was fitted on: 1 is the best known, 0 a failure."""

    def __init__(self, known: Scored) -> None:
        """Fits it on genomes with their scores; their sketches are those it can tell apart."""
        import xgboost

        genomes = sorted(known, key=lambda genome: (genome.sketch.text, repr(genome.decisions)))
        texts = sorted({genome.sketch.text for genome in genomes})
        self._sketches = {text: number for number, text in enumerate(texts)}
        self._width = max((_width(genome.sketch) for genome in genomes), default=0)
        scores = np.array([known[genome] for genome in genomes], dtype=np.float64)
        data = xgboost.DMatrix(self._rows(genomes), scores, weight=np.maximum(scores, _MIN_WEIGHT), nthread=1)
        self._booster = xgboost.train(_PARAMETERS, data, num_boost_round=_ROUNDS)

    def predict(self, genomes: Sequence[Genome]) -> npt.NDArray[np.float64]:
        """Float64 [len(genomes)], higher is better."""
        import xgboost

        if not genomes:
            return np.zeros(0)
        data = xgboost.DMatrix(self._rows(genomes), nthread=1)
        predicted: npt.NDArray[np.float32] = self._booster.predict(data)
        return predicted.astype(np.float64)

    def _rows(self, genomes: Sequence[Genome]) -> npt.NDArray[np.float32]:
        """Float32 [len(genomes), n_sketches + levels + the widest sketch's]; NaN where a sketch has less."""
        head = len(self._sketches)
        rows = np.full((len(genomes), head + _LEVELS + self._width), np.nan, dtype=np.float32)
        rows[:, :head] = 0.0
        for row, genome in zip(rows, genomes, strict=True):
            row[self._sketches[genome.sketch.text]] = 1.0
            values = _values(genome)
            row[head : head + len(values)] = values
        return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Evolution:
    """How drafts evolve; names as in TVM's EvolutionarySearch, whose numbers are these at most.

    A model that knows little has little to climb: the population grows with what is known, and generations
    end where the best drafts get no better.
    """

    population_size: int
    genetic_num_iters: int
    genetic_mutate_prob: float
    #: By kind of sampling instruction; None: alike.
    mutators: Mapping[str, float] | None = None

    def run(
        self,
        model: DraftModel,
        parents: Collection[Genome],
        *,
        but: Collection[Genome],
        random: Random,
        wanted: int,
    ) -> list[tuple[float, Genome]]:
        """All genomes met while a population evolves from `parents`, without those of `but`, best first.

        So many of the best are `wanted`.
        """
        if not parents:
            return []
        size = min(self.population_size, _FOR_EACH_KNOWN * len(parents))
        variation = Variation(list(parents), random=random, weights=self.mutators)
        scores: dict[Genome, float] = _scored(model, list(dict.fromkeys(parents)))
        best = -math.inf
        for _ in range(self.genetic_num_iters):
            population = sorted(scores, key=lambda genome: -scores[genome])[:size]
            before, best = best, fmean(scores[genome] for genome in population[:wanted])
            if best - before < _SETTLED:
                break
            weights = [max(scores[genome], _LEAST_SCORE) for genome in population]
            chosen = random.choices(population, weights, k=size)
            children = [self._child(parent, variation, random) for parent in chosen]
            scores |= _scored(model, [child for child in dict.fromkeys(children) if child not in scores])
        found = ((score, genome) for genome, score in scores.items() if genome not in but)
        return sorted(found, key=lambda scored: -scored[0])

    def _child(self, parent: Genome, variation: Variation, random: Random) -> Genome:
        child = variation.crossed(parent) if random.random() < _CROSSED else parent
        if child is parent or random.random() < self.genetic_mutate_prob:
            child = variation.mutated(child)
        return variation.mutated(child) if random.random() < _TWICE else child


def _scored(model: DraftModel, genomes: Sequence[Genome]) -> dict[Genome, float]:
    return dict(zip(genomes, model.predict(genomes).tolist(), strict=True))


def _width(sketch: Sketch) -> int:
    return (2 * _LEVELS + 1) * len(sketch.sites)


def _values(genome: Genome) -> list[float]:
    """Sums by level over all tiles; then, for each site: its factors and their products from inside, log2."""
    sums = [0.0] * _LEVELS
    values: list[float] = []
    for decision in genome.decisions:
        if isinstance(decision, tuple):
            tile = _tile_values(decision)
            for level in range(min(_LEVELS, len(decision))):
                sums[level] += tile[_LEVELS + level]
            values += tile
        else:
            values += [float(decision), *[math.nan] * (2 * _LEVELS)]
    return sums + values


@cache
def _tile_values(factors: tuple[int, ...]) -> tuple[float, ...]:
    logs = [math.log2(factor) if factor > 0 else 0.0 for factor in factors][::-1]
    products = np.cumsum(logs).tolist()
    innermost = round(2 ** logs[0]) if logs else 1
    missing = [math.nan] * (_LEVELS - len(logs))
    lanes = math.log2(math.gcd(innermost, 16)) if innermost else 0.0
    return (*logs[:_LEVELS], *missing, *products[:_LEVELS], *missing, lanes)
