"""Thinning: few points, every improvement, the envelope, and where failures lie. Ranks of predictions."""

import random
from datetime import UTC, datetime, timedelta

import pytest

from db.curves import Point
from db.states import Outcome
from services.dashboard.thinning import improving, thin
from services.dashboard.views.tasks import rank_by_round

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def point(number: int, latency_secs: float | None, *, outcome=Outcome.OK, score=None, round_=0) -> Point:
    return Point(
        trial_id=number, number=number, outcome=outcome, latency_secs=latency_secs, predicted_score=score,
        round=round_, done_at=BEGIN + timedelta(seconds=number),
    )  # fmt: skip


def search(count: int) -> list[Point]:
    """Latencies that fall slowly, one failure in ten."""
    draw = random.Random(0)
    return [
        point(n, None, outcome=Outcome.BUILD_ERROR)
        if draw.random() < 0.1
        else point(n, draw.uniform(1, 50) / (1 + n / count))
        for n in range(1, count + 1)
    ]


def test_few_points_stay_as_they_are():
    points = search(2000)
    assert thin(points) == points


@pytest.mark.parametrize("count", [2001, 20_000, 100_000])
def test_many_points_become_at_most_2000_with_every_improvement(count):
    points = search(count)
    thinned = thin(points)
    assert 1000 < len(thinned) <= 2000
    assert set(improving(points)) <= set(thinned)
    assert thinned == sorted(thinned, key=lambda each: each.number)
    assert improving(thinned) == improving(points)


def test_the_envelope_and_failures_of_every_stretch_stay():
    points = search(50_000)
    thinned = thin(points)
    for start in range(0, 50_000, 5000):
        stretch = [p.latency_secs for p in points[start : start + 5000] if p.latency_secs is not None]
        kept = [p for p in thinned if start < p.number <= start + 5000]
        times = [p.latency_secs for p in kept if p.latency_secs is not None]
        assert (min(times), max(times)) == (min(stretch), max(stretch))
        assert any(p.outcome is Outcome.BUILD_ERROR for p in kept)


def test_more_improvements_than_points_are_thinned_evenly_to_the_last():
    points = [point(n, 1 / n) for n in range(1, 10_001)]
    thinned = thin(points, max_points=100)
    assert len(thinned) <= 100
    assert thinned[0] == points[0]
    assert thinned[-1] == points[-1]


def test_a_cut_off_or_failed_trial_is_no_improvement():
    slow, bad = point(2, 1.0, outcome=Outcome.CUT_OFF), point(3, None, outcome=Outcome.RUN_ERROR)
    points = [point(1, 5.0), slow, bad, point(4, 4.0)]
    assert [each.number for each in improving(points)] == [1, 4]


def test_a_perfect_prediction_ranks_1_and_a_reversed_one_minus_1():
    right = [point(n, 1.0 / n, score=float(n), round_=1) for n in range(1, 9)]
    wrong = [point(n, 1.0 * n, score=float(n), round_=2) for n in range(1, 9)]
    few = [point(n, 1.0, score=1.0, round_=3) for n in range(3)]
    ranks = rank_by_round([*right, *wrong, *few])
    assert [(each["round"], round(each["rank"], 9)) for each in ranks] == [(1, 1.0), (2, -1.0)]
