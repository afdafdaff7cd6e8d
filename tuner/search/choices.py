"""What the sampling instructions of a sketch may decide: drawn without a schedule, and counted.

A program costs milliseconds, a genome microseconds; and a space of few programs is known to be empty without
drawing from it again and again.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any, Self

from tuner.search.genome import CATEGORICAL, TILE, Decision, Genome, Sketch

#: Spaces of at most so many genomes are written out.
_FEW = 1 << 12
#: Draws of a tile before its innermost factor is made one.
_TILE_TRIES = 32


@dataclass(frozen=True, slots=True)
class _Tile:
    extent: int
    n: int
    max_innermost: int

    @property
    def count(self) -> int:
        """At most so many."""
        return _n_factorisations(self.extent, self.n)

    def drawn(self, random: Random) -> Decision:
        """As TVM draws: all factorisations alike."""
        for _ in range(_TILE_TRIES):
            factors = _factorisation(self.extent, self.n, random)
            if factors[-1] <= self.max_innermost:
                return factors
        return (*factors[:-2], factors[-2] * factors[-1], 1) if self.n > 1 else factors

    def all(self) -> Iterator[Decision]:
        found = _factorisations(self.extent, self.n)
        return (factors for factors in found if factors[-1] <= self.max_innermost)


@dataclass(frozen=True, slots=True)
class _Categorical:
    weights: tuple[float, ...]

    @property
    def count(self) -> int:
        return len(self.weights)

    def drawn(self, random: Random) -> Decision:
        (index,) = random.choices(range(len(self.weights)), self.weights)
        return index

    def all(self) -> Iterator[Decision]:
        return iter([index for index, weight in enumerate(self.weights) if weight > 0])


@dataclass(frozen=True, slots=True)
class Choices:
    """Of one sketch."""

    sketch: Sketch
    _sites: tuple[_Tile | _Categorical, ...]

    @classmethod
    def of(cls, genome: Genome) -> Self | None:
        """Of a genome's sketch; None where what one site may decide depends on another's decision."""
        sketch = genome.sketch
        if not _loops_are_fixed(sketch.instructions):
            return None
        sites: list[_Tile | _Categorical] = []
        for site, decision in zip(sketch.sites, genome.decisions, strict=True):
            if site.kind == TILE and isinstance(decision, tuple) and decision:
                extent = math.prod(decision)
                if extent < 1:
                    return None
                sites.append(_Tile(extent, len(decision), site.bound))
            elif site.kind == CATEGORICAL:
                sites.append(_Categorical(site.weights))
            else:
                return None
        return cls(sketch, tuple(sites))

    @property
    def few(self) -> bool:
        """All genomes can be written out."""
        return math.prod(site.count for site in self._sites) <= _FEW

    def drawn(self, random: Random) -> Genome:
        return Genome(self.sketch, tuple(site.drawn(random) for site in self._sites))

    def all(self) -> Iterator[Genome]:
        """In one order; only where they are few."""
        return (Genome(self.sketch, found) for found in itertools.product(*(s.all() for s in self._sites)))


def _loops_are_fixed(instructions: list[Any]) -> bool:
    """No tile is of a loop whose extent another decision made: all were named before any such split."""
    sampled: set[str] = set()
    fixed: set[str] = set()
    is_split = False
    for kind, inputs, _, outputs in instructions:
        if kind == TILE and inputs[0] not in fixed:
            return False
        if kind in (TILE, CATEGORICAL):
            sampled.update(outputs)
        elif kind == "GetLoops":
            fixed.update(() if is_split else outputs)
        elif kind in ("Split", "Fuse"):
            if sampled.intersection(str(name) for name in inputs):
                is_split = True
            elif fixed.issuperset(inputs if kind == "Fuse" else inputs[:1]):
                fixed.update(outputs)
    return True


@cache
def _primes(number: int) -> tuple[tuple[int, int], ...]:
    """(prime, exponent)."""
    found, prime = [], 2
    while prime * prime <= number:
        exponent = 0
        while number % prime == 0:
            number //= prime
            exponent += 1
        if exponent:
            found.append((prime, exponent))
        prime += 1
    return (*found, (number, 1)) if number > 1 else tuple(found)


def _n_factorisations(extent: int, n: int) -> int:
    return math.prod(math.comb(exponent + n - 1, n - 1) for _, exponent in _primes(extent))


def _factorisation(extent: int, n: int, random: Random) -> tuple[int, ...]:
    """As many factors: of each prime, n - 1 bars among its powers."""
    factors = [1] * n
    for prime, exponent in _primes(extent):
        bars = sorted(random.sample(range(exponent + n - 1), n - 1))
        for place, power in enumerate(_between(bars, exponent + n - 1)):
            factors[place] *= prime**power
    return tuple(factors)


def _factorisations(extent: int, n: int) -> Iterator[tuple[int, ...]]:
    each = [
        [
            tuple(prime**power for power in _between(bars, exponent + n - 1))
            for bars in itertools.combinations(range(exponent + n - 1), n - 1)
        ]
        for prime, exponent in _primes(extent)
    ]
    for powers in itertools.product(*each):
        yield tuple(math.prod(factors) for factors in zip(*powers, strict=True)) if powers else (1,) * n


def _between(bars: list[int] | tuple[int, ...], total: int) -> list[int]:
    """Stars before, between and behind the bars."""
    edges = [-1, *bars, total]
    return [right - left - 1 for left, right in itertools.pairwise(edges)]
