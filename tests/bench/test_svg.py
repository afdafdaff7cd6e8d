"""Axes of the charts."""

import pytest

from bench.svg import linear_ticks, log_ticks


@pytest.mark.parametrize("high", [0.7, 3.0, 9.9, 42.0, 176.0, 1200.0])
def test_linear_ticks_are_few_round_and_within(high: float):
    ticks = linear_ticks(high)
    assert 3 <= len(ticks) <= 9
    assert ticks[0] == 0.0
    assert ticks[-1] <= high


@pytest.mark.parametrize(("low", "high"), [(900.0, 1500.0), (300.0, 9000.0), (1.0, 140_000.0), (2.0, 2.6)])
def test_log_ticks_are_few_and_within(low: float, high: float):
    ticks = log_ticks(low, high)
    assert 1 <= len(ticks) <= 8
    assert all(low <= tick <= high for tick in ticks)
