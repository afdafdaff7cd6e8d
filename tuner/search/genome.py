"""A candidate as the search varies it: a sketch, and one decision for each of its sampling instructions.

Decisions are varied here as plain numbers, without a schedule: a draft costs microseconds, its replay costs
milliseconds. Whether a draft is a program is known when it was replayed.
"""

import itertools
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Any

from tuner.cost_model.roofline import LONG_UNROLL
from tuner.plain_json import compact

#: A tile's factors, or the index that a categorical or a compute location was decided to.
Decision = tuple[int, ...] | int

TILE, CATEGORICAL, LOCATION = "SamplePerfectTile", "SampleCategorical", "SampleComputeLocation"
_KINDS = frozenset({TILE, CATEGORICAL, LOCATION})
#: Which mutator of TVM varies which sampling instruction. MutateParallel varies an annotation: no decision.
MUTATOR_KINDS = {
    "MutateTileSize": TILE,
    "MutateUnroll": CATEGORICAL,
    "MutateThreadBinding": CATEGORICAL,
    "MutateComputeLocation": LOCATION,
}
POSTPROC = "EnterPostproc"
_UNROLLING = frozenset({"meta_schedule.unroll_explicit", "meta_schedule.unroll_implicit"})
#: Unrolling by more than LONG_UNROLL seldom makes a kernel faster, and often its build endless: so much less
#: often it is drawn.
_LONG_SHARE = 0.2
#: Above every extent of a loop.
_ANY = 1 << 31
#: Tries to move a factor before a tile counts as one that cannot be varied.
_TILE_TRIES = 8


@dataclass(frozen=True, slots=True)
class Site:
    """A sampling instruction of a sketch."""

    #: Its place among the instructions.
    index: int
    kind: str
    #: Of a tile: the largest innermost factor. Of a categorical: how many candidates it has.
    bound: int = 0
    #: Of a categorical: how likely each candidate is to be drawn, on any scale.
    weights: tuple[float, ...] = ()


@dataclass(frozen=True)
class Sketch:
    """The instructions before the postprocs; sketches with equal instructions are equal."""

    #: Compact JSON of the instructions, without decisions.
    text: str

    @cached_property
    def instructions(self) -> list[Any]:
        return list(json.loads(self.text))

    @cached_property
    def sites(self) -> tuple[Site, ...]:
        unrolling = {
            inputs[1]
            for kind, inputs, attributes, _ in self.instructions
            if kind == "Annotate" and attributes[0] in _UNROLLING
        }
        found = []
        for index, (kind, _inputs, attributes, outputs) in enumerate(self.instructions):
            if kind == TILE:
                found.append(Site(index, TILE, _innermost(int(attributes[1]))))
            elif kind == CATEGORICAL:
                found.append(_categorical(index, *attributes, unrolls=outputs[0] in unrolling))
            elif kind == LOCATION:
                found.append(Site(index, LOCATION))
        return tuple(found)

    @cached_property
    def samples_otherwise(self) -> bool:
        """Whether it samples in a way that is not known here."""
        return any(kind.startswith("Sample") and kind not in _KINDS for kind, *_ in self.instructions)


def _innermost(factor: int) -> int:
    """The largest innermost factor; TVM says -1 where any will do."""
    return _ANY if factor == -1 else factor


def _categorical(
    index: int, candidates: Sequence[float], probabilities: Sequence[float], *, unrolls: bool
) -> Site:
    weights = tuple(float(weight) for weight in probabilities)
    if unrolls:
        pairs = zip(candidates, weights, strict=True)
        weights = tuple(weight * (_LONG_SHARE if steps > LONG_UNROLL else 1.0) for steps, weight in pairs)
    return Site(index, CATEGORICAL, len(weights), weights)


@dataclass(frozen=True, slots=True)
class Genome:
    """`decisions[k]` belongs to `sketch.sites[k]`."""

    sketch: Sketch
    decisions: tuple[Decision, ...]

    def trace(self) -> list[Any]:
        """As TVM's Trace.apply_json_to_schedule takes it, without postprocs."""
        sites = zip(self.sketch.sites, self.decisions, strict=True)
        decisions = [[s.index, list(d) if isinstance(d, tuple) else d] for s, d in sites]
        return [self.sketch.instructions, decisions]


def genome_of(trace: str) -> Genome | None:
    """Of a trace's JSON text; None where it lacks a decision, or samples in a way that is not known here."""
    instructions, decisions = json.loads(trace)
    sketch, end = _sketch(instructions)
    decided = {int(index): decision for index, decision in decisions if int(index) < end}
    if decided.keys() != {site.index for site in sketch.sites}:
        return None
    return Genome(sketch, tuple(_frozen(decided[site.index]) for site in sketch.sites))


def genome_in(trace: Any, sketch: Sketch) -> Genome | None:
    """Of a `tvm.s_tir.Trace` of that sketch; None as for `genome_of`, which takes a hundred times as long."""
    if sketch.samples_otherwise:
        return None
    instructions = trace.insts
    decisions = [trace.get_decision(instructions[site.index]) for site in sketch.sites]
    if any(decision is None for decision in decisions):
        return None
    return Genome(sketch, tuple(_frozen(decision) for decision in decisions))


def sketch_of(trace: str) -> Sketch:
    """Of a trace's JSON text."""
    return _sketch(json.loads(trace)[0])[0]


def _sketch(instructions: list[Any]) -> tuple[Sketch, int]:
    """The sketch, and how many instructions stand before the postprocs."""
    end = next((n for n, i in enumerate(instructions) if i[0] == POSTPROC), len(instructions))
    return Sketch(compact(instructions[:end])), end


def _frozen(decision: Any) -> Decision:
    """A tile comes as a list of JSON, or as an array of TVM."""
    return tuple(map(int, decision)) if isinstance(decision, Sequence) else int(decision)


class Variation:
    """Draws genomes near others. What it draws depends on `random` and on what it was made from."""

    def __init__(
        self, genomes: Sequence[Genome], *, random: Random, weights: Mapping[str, float] | None = None
    ) -> None:
        """`genomes` tell which compute locations are worth a try. `weights` by kind of site; None: alike."""
        self._random = random
        self._weights = weights
        self._kin: dict[Sketch, list[Genome]] = {}
        #: By sketch: the places that may change, and the running sums of their weights.
        self._places: dict[Sketch, tuple[list[int], list[float]]] = {}
        self._known_locations: dict[tuple[Sketch, int], list[int]] = {}
        for genome in genomes:
            self._kin.setdefault(genome.sketch, []).append(genome)

    def mutated(self, genome: Genome) -> Genome:
        """With one decision changed; the same genome where nothing can be."""
        places, sums = self._places.get(genome.sketch) or self._changeable(genome.sketch)
        if not places:
            return genome
        (place,) = self._random.choices(places, cum_weights=sums)
        decisions = list(genome.decisions)
        decisions[place] = self._changed(genome, place)
        return Genome(genome.sketch, tuple(decisions))

    def crossed(self, genome: Genome) -> Genome:
        """With each decision from it or from another genome of its sketch, by a coin."""
        other = self._random.choice(self._kin.get(genome.sketch) or [genome])
        pairs = zip(genome.decisions, other.decisions, strict=True)
        return Genome(genome.sketch, tuple(pair[self._random.random() < 0.5] for pair in pairs))

    def _changeable(self, sketch: Sketch) -> tuple[list[int], list[float]]:
        weights = [self._weight(site) for site in sketch.sites]
        places = [place for place, weight in enumerate(weights) if weight > 0]
        found = places, list(itertools.accumulate(weights[place] for place in places))
        self._places[sketch] = found
        return found

    def _weight(self, site: Site) -> float:
        return 1.0 if self._weights is None else self._weights.get(site.kind, 0.0)

    def _changed(self, genome: Genome, place: int) -> Decision:
        site, decision = genome.sketch.sites[place], genome.decisions[place]
        if isinstance(decision, tuple):
            return self._retiled(decision, innermost=site.bound)
        if site.kind == CATEGORICAL:
            return self._random.choices(range(site.bound), site.weights)[0]
        return self._random.choice(self._locations(genome.sketch, place) or [decision])

    def _locations(self, sketch: Sketch, place: int) -> list[int]:
        """Those of all genomes of the sketch, each as often as it is there."""
        found = self._known_locations.get((sketch, place))
        if found is None:
            decided = (kin.decisions[place] for kin in self._kin.get(sketch, []))
            found = [location for location in decided if isinstance(location, int)]
            self._known_locations[sketch, place] = found
        return found

    def _retiled(self, factors: tuple[int, ...], *, innermost: int) -> tuple[int, ...]:
        """With a divisor of one factor moved to another, as TVM's MutateTileSize does."""
        sources = [place for place, factor in enumerate(factors) if factor > 1]
        if len(factors) < 2 or not sources:
            return factors
        for _ in range(_TILE_TRIES):
            source, target = self._random.choice(sources), self._random.randrange(len(factors))
            divisor = self._random.choice(_divisors(factors[source]))
            moved = list(factors)
            moved[source] //= divisor
            moved[target] *= divisor
            if source != target and moved[-1] <= max(innermost, factors[-1]):
                return tuple(moved)
        return factors


def neighbours(genome: Genome) -> Iterator[Genome]:
    """All that differ in one decision: a prime of a tile moved to another factor, or the next of a list."""
    for place, (site, decision) in enumerate(zip(genome.sketch.sites, genome.decisions, strict=True)):
        if isinstance(decision, tuple):
            changed: Iterable[Decision] = _tiles_beside(decision, innermost=site.bound)
        elif site.kind == CATEGORICAL:
            changed = [near for near in (decision - 1, decision + 1) if 0 <= near < site.bound]
        else:
            changed = ()
        for each in changed:
            yield Genome(genome.sketch, (*genome.decisions[:place], each, *genome.decisions[place + 1 :]))


def _tiles_beside(factors: tuple[int, ...], *, innermost: int) -> Iterator[tuple[int, ...]]:
    for source, target in itertools.permutations(range(len(factors)), 2):
        for prime in _primes(factors[source]):
            moved = list(factors)
            moved[source] //= prime
            moved[target] *= prime
            if moved[-1] <= max(innermost, factors[-1]):
                yield tuple(moved)


def _primes(number: int) -> list[int]:
    return [
        each for each in _divisors(number) if not any(each % other == 0 for other in _divisors(each)[:-1])
    ]


_DIVISORS: dict[int, list[int]] = {}


def _divisors(number: int) -> list[int]:
    """All divisors above one."""
    if number not in _DIVISORS:
        low = [divisor for divisor in range(1, math.isqrt(number) + 1) if number % divisor == 0]
        _DIVISORS[number] = sorted({*low, *(number // divisor for divisor in low)} - {1})
    return _DIVISORS[number]
