"""Which choices of rules are searched: none twice, and stock's design spaces stand in all of them."""

import pytest

from bench.rules import STOCK, opened_choices, rows_of
from bench.suite import workload
from tuner.target import detect_local_target

TARGET = {"kind": "llvm", "mcpu": "znver3", "num-cores": 2}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("GMM-128", {STOCK, "contraction", "all, nothing padded", "all, nothing packed"}),
        ("DEP", {STOCK, "window"}),
        ("SFM", {STOCK, "row"}),
    ],
)
def test_a_choice_that_spans_nothing_new_is_left_out(name, expected):
    found = {
        choice: len(setup.design_spaces)
        for choice, setup, _ in opened_choices(workload(name).module, TARGET, seed=0)
    }
    assert set(found) == expected
    assert all(found[STOCK] < n for choice, n in found.items() if choice != STOCK)
    rest = [n for choice, n in found.items() if choice.startswith("all, nothing")]
    assert all(n < found["contraction"] for n in rest)


@pytest.mark.slow
def test_each_choice_is_searched_and_its_best_timed():
    rows = rows_of(workload("GMM-128"), detect_local_target(), seeds=1, trials=4)
    assert [row[1] for row in rows][:2] == [STOCK, "contraction"]
    assert rows[0][4] == "1.00"
    assert all(float(row[3]) > 0 and float(row[4]) > 0 for row in rows)
