"""Down-sampling: few points, every improvement, the envelope, where failures lie; ranks of predictions."""

import random
from datetime import UTC, datetime, timedelta

import pytest

from db.curves import Point
from db.states import Outcome
from services.dashboard.downsampling import downsample, improving
from services.dashboard.ranks import rank_by_round

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
    assert downsample(points) == points


@pytest.mark.parametrize("count", [2001, 20_000, 100_000])
def test_many_points_become_at_most_2000_with_every_improvement(count):
    points = search(count)
    kept_points = downsample(points)
    assert 1000 < len(kept_points) <= 2000
    assert set(improving(points)) <= set(kept_points)
    assert kept_points == sorted(kept_points, key=lambda each: each.number)
    assert improving(kept_points) == improving(points)


def test_the_envelope_and_failures_of_every_stretch_stay():
    points = search(50_000)
    kept_points = downsample(points)
    for start in range(0, 50_000, 5000):
        stretch = [p.latency_secs for p in points[start : start + 5000] if p.latency_secs is not None]
        kept = [p for p in kept_points if start < p.number <= start + 5000]
        times = [p.latency_secs for p in kept if p.latency_secs is not None]
        assert (min(times), max(times)) == (min(stretch), max(stretch))
        assert any(p.outcome is Outcome.BUILD_ERROR for p in kept)


def test_more_improvements_than_points_are_taken_evenly_to_the_last():
    points = [point(n, 1 / n) for n in range(1, 10_001)]
    kept_points = downsample(points, max_points=100)
    assert len(kept_points) <= 100
    assert kept_points[0] == points[0]
    assert kept_points[-1] == points[-1]


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
