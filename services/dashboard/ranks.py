"""How well the cost model ranked: Spearman of predicted score and measured speed, by round. Pure."""

from collections.abc import Iterable, Sequence

from db.curves import Point
from db.states import Outcome

#: Points of the chart; longer searches show several rounds as one.
MAX_ROUNDS = 150
_LEAST_PAIRS = 4


def rank_by_round(found: Iterable[Point]) -> list[dict[str, float]]:
    """Of each round that was predicted; of a long search, of so many rounds together, named by the last."""
    rounds: dict[int, list[tuple[float, float]]] = {}
    for point in found:
        timed = point.outcome is Outcome.OK and point.latency_secs
        if timed and point.predicted_score is not None:
            rounds.setdefault(point.round, []).append((point.predicted_score, -point.latency_secs))  # type: ignore[operator]  # it is timed
    numbers = sorted(rounds)
    together = -(-len(numbers) // MAX_ROUNDS) or 1
    stretches = [numbers[start : start + together] for start in range(0, len(numbers), together)]
    ranked = [(each[-1], _mean([spearman(rounds[number]) for number in each])) for each in stretches]
    return [{"round": number, "rank": round(rank, 4)} for number, rank in ranked if rank is not None]


def spearman(pairs: Sequence[tuple[float, float]]) -> float | None:
    """None below four pairs, or where one side is constant."""
    if len(pairs) < _LEAST_PAIRS:
        return None
    one, other = _ranks([pair[0] for pair in pairs]), _ranks([pair[1] for pair in pairs])
    mean = (len(pairs) - 1) / 2
    above = sum((a - mean) * (b - mean) for a, b in zip(one, other, strict=True))
    below = (sum((a - mean) ** 2 for a in one) * sum((b - mean) ** 2 for b in other)) ** 0.5
    return above / below if below else None


def _mean(ranks: Iterable[float | None]) -> float | None:
    known = [rank for rank in ranks if rank is not None]
    return sum(known) / len(known) if known else None


def _ranks(values: Sequence[float]) -> list[float]:
    """Equal values share the mean of their ranks."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end + 1 < len(order) and values[order[end + 1]] == values[order[start]]:
            end += 1
        for index in order[start : end + 1]:
            ranks[index] = (start + end) / 2
        start = end + 1
    return ranks
