"""Agreement of two rankings."""

import pytest

from bench.agreement import recall, regret, spearman

CAREFUL = [1.0, 2.0, 3.0, 4.0, 5.0]


def test_the_same_order_agrees_whatever_the_numbers():
    assert spearman([10.0, 11.0, 50.0, 51.0, 99.0], CAREFUL) == pytest.approx(1.0)
    assert spearman(CAREFUL[::-1], CAREFUL) == pytest.approx(-1.0)


def test_ties_share_their_rank():
    assert spearman([1.0, 2.0, 2.0, 4.0], [1.0, 2.0, 3.0, 4.0]) == pytest.approx(0.9487, abs=1e-4)


def test_recall_counts_the_truly_best_that_were_seen():
    fast = [9.0, 1.0, 2.0, 3.0, 8.0]
    assert recall(fast, CAREFUL, count=3) == pytest.approx(2 / 3)
    assert recall(CAREFUL, CAREFUL, count=3) == 1.0


def test_regret_is_what_the_wrong_choice_costs_and_confirmation_saves():
    fast = [3.0, 1.0, 2.0, 4.0, 5.0]
    assert regret(fast, CAREFUL) == pytest.approx(2.0)
    assert regret(fast, CAREFUL, confirmed=3) == pytest.approx(1.0)
