"""A choice that is good and holds different programs: neighbours of one another take nearly the same time.

Diversity-aware exploration of AutoTVM (Chen et al., NeurIPS 2018, section 3.3), greedily: each next program
is the one with the best score plus a reward for decisions that no program picked before it has.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from tuner.search.genome import Decision, Genome, Sketch

#: A decision at its place of a sketch.
_Part = tuple[Sketch, int, Decision]


def spread(scored: Sequence[tuple[float, Genome | None]], *, reward: float) -> Iterator[int]:
    """The places of all of them in the order in which they are worth picking; ties as they were given.

    `reward`: what a program is worth more, in scores, that shares nothing with those picked. One without a
    genome cannot be compared and counts as different.
    """
    parts = _parts([genome for _, genome in scored])
    left = list(range(len(scored)))
    taken: set[int] = set()
    while left:
        best = max(left, key=lambda place: scored[place][0] + reward * _new_share(parts[place], taken))
        left.remove(best)
        taken |= parts[best]
        yield best


def _parts(genomes: Sequence[Genome | None]) -> list[set[int]]:
    """Numbers of each program's decisions, but for those that all of its sketch share."""
    every: list[list[_Part]] = [
        [] if genome is None else [(genome.sketch, *part) for part in enumerate(genome.decisions)]
        for genome in genomes
    ]
    sizes = Counter(genome.sketch for genome in genomes if genome is not None)
    counts = Counter(part for parts in every for part in parts)
    numbers = {part: number for number, part in enumerate(counts) if counts[part] < sizes[part[0]]}
    return [{numbers[part] for part in parts if part in numbers} for parts in every]


def _new_share(parts: set[int], taken: set[int]) -> float:
    """1 where nothing can be compared."""
    return len(parts - taken) / len(parts) if parts else 1.0
