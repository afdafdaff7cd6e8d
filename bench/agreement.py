"""How well one ranking of the same candidates stands for another. Pure; latencies, smaller is better."""

import statistics
from collections.abc import Sequence


def spearman(left: Sequence[float], right: Sequence[float]) -> float:
    """Correlation of the ranks, ties at their mean rank; 1 where both agree throughout."""
    ranks = [_ranks(left), _ranks(right)]
    return statistics.correlation(*ranks)


def recall(fast: Sequence[float], careful: Sequence[float], *, count: int) -> float:
    """Share of the `count` truly best that are among the `count` that `fast` calls best."""
    return len(set(_best(fast, count)) & set(_best(careful, count))) / min(count, len(fast))


def regret(fast: Sequence[float], careful: Sequence[float], *, confirmed: int = 1) -> float:
    """What is lost by trusting `fast`: the careful latency of its choice over the careful best.

    With `confirmed` above 1 the choice is the careful best among so many that `fast` calls best.
    """
    return min(careful[index] for index in _best(fast, confirmed)) / min(careful)


def _best(latencies: Sequence[float], count: int) -> list[int]:
    return sorted(range(len(latencies)), key=lambda index: latencies[index])[:count]


def _ranks(values: Sequence[float]) -> list[float]:
    below = [sum(other < value for other in values) for value in values]
    same = [sum(other == value for other in values) for value in values]
    return [less + (equal + 1) / 2 for less, equal in zip(below, same, strict=True)]
