"""Which choices of rules are searched: none twice, and stock's design spaces stand in all of them."""

import pytest

from bench.rules import STOCK, opened_choices
from bench.suite import workload

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
