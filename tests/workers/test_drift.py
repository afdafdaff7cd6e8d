"""When a device counts as slower than it was: numbers in, a verdict out."""

import pytest

from workers.drift import HISTORY_RUNS, LEAST_HISTORY, Verdict, judge

USUAL = [100e-6] * LEAST_HISTORY


def verdict(history, *runs, limit=0.15):
    return judge(history, runs, limit=limit).verdict


def test_a_device_without_a_history_is_well():
    assert verdict([], 1.0) == Verdict.WELL
    assert verdict(USUAL[:-1], 1.0, 1.0, 1.0) == Verdict.WELL


def test_a_run_within_the_limit_is_well():
    judgement = judge(USUAL, [114e-6], limit=0.15)
    assert judgement.verdict == Verdict.WELL
    assert judgement.slower == pytest.approx(0.14)


def test_a_slow_run_asks_for_a_second_and_a_third():
    assert verdict(USUAL, 120e-6) == Verdict.SUSPECT
    assert verdict(USUAL, 120e-6, 130e-6) == Verdict.SUSPECT
    assert verdict(USUAL, 120e-6, 130e-6, 125e-6) == Verdict.DRIFTED


def test_one_good_run_of_three_clears_the_device():
    assert verdict(USUAL, 300e-6, 101e-6) == Verdict.WELL
    assert verdict(USUAL, 300e-6, 300e-6, 101e-6) == Verdict.WELL


def test_how_much_slower_is_told_by_the_fastest_run():
    assert judge(USUAL, [150e-6, 130e-6, 140e-6], limit=0.15).slower == pytest.approx(0.3)


def test_the_limit_is_a_setting():
    assert verdict(USUAL, *[120e-6] * 3, limit=0.25) == Verdict.WELL


def test_a_faster_device_is_well():
    assert judge(USUAL, [50e-6], limit=0.15).slower == pytest.approx(-0.5)


def test_the_history_is_its_latest_runs_and_one_freak_among_them_does_not_matter():
    history = [10e-6] * 50 + [100e-6] * (HISTORY_RUNS - 1) + [1e-6]
    assert verdict(history, 110e-6) == Verdict.WELL
    assert verdict([100e-6] * 50 + [200e-6] * HISTORY_RUNS, 210e-6) == Verdict.WELL
