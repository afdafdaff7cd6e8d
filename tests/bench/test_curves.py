"""What a run found, and when."""

import json

import pytest

from bench.curves import (
    Measured,
    Point,
    Run,
    first_reaching,
    geometric_mean,
    improvements,
    median_or_none,
    thinned,
)
from tests.bench.runs import POINTS, a_run


def test_only_what_is_better_than_all_before_is_an_improvement():
    latencies = [None, 5.0, 7.0, 3.0, 3.0, 4.0, 1.0]
    trials = [
        Measured(secs=float(second), latency_secs=latency, trace=second)
        for second, latency in enumerate(latencies)
    ]
    found = improvements(trials)
    assert [(point.trials, point.secs, point.latency_secs) for point in found] == [
        (2, 1.0, 5.0),
        (4, 3.0, 3.0),
        (7, 6.0, 1.0),
    ]


def test_a_batch_that_is_known_at_once_leaves_one_point():
    batch = [Measured(secs=30.0, latency_secs=latency, trace=None) for latency in (5.0, 4.0, 2.0)]
    assert [point.latency_secs for point in thinned(improvements(batch), at_most=10)] == [2.0]


def test_thinning_keeps_the_ends_and_the_largest_steps():
    latencies = [100.0, 99.0, 50.0, 49.0, 10.0, 9.9]
    points = [
        Point(trials=number, secs=float(number), latency_secs=latency, trace=None)
        for number, latency in enumerate(latencies, start=1)
    ]
    assert [point.latency_secs for point in thinned(points, at_most=4)] == [100.0, 50.0, 10.0, 9.9]


def test_a_quality_is_reached_by_the_first_point_that_is_fast_enough():
    found = first_reaching(POINTS, 2.5e-3)
    assert found is not None
    assert (found.trials, found.secs) == (16, 20.0)
    assert first_reaching(POINTS, 0.9e-3) is None


def test_a_median_counts_what_was_never_reached_as_the_worst():
    assert median_or_none([1.0, None, 3.0]) == 3.0
    assert median_or_none([1.0, None, None]) is None
    assert median_or_none([]) is None


def test_a_geometric_mean_weighs_ratios_alike():
    assert geometric_mean([4.0, 0.25]) == pytest.approx(1.0)
    assert geometric_mean([]) is None


def test_a_run_survives_the_cache():
    run = a_run("stock")
    assert Run.from_json(json.loads(json.dumps(run.as_json()))) == run
