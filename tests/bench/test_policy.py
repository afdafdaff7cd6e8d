"""The table of the measure policy."""

import argparse

import pytest

from bench.policy import main, table


def test_the_table_names_the_workload_and_its_figures():
    result = {
        "workload": "SFM",
        "count": 24,
        "cut_off": 5,
        "wrongly_cut_off": 2,
        "failed": 1,
        "spearman": 0.9871,
        "recall": 0.875,
        "regret": 1.034,
        "confirmed": 3,
        "confirmed_regret": 1.0,
        "device_ms": 17.23,
    }
    text = table([result], "a CPU, 2 cores")
    assert text.startswith(
        "a CPU, 2 cores. The search's measure policy against a careful reference (2 processes"
    )
    assert "| SFM | 24 | 5 | 2 | 1 | 0.987 | 0.88 | 1.034 | 1.000 | 17.2 |" in text


def test_a_workload_that_is_none_is_told_before_anything_is_timed():
    with pytest.raises(SystemExit, match="no workload GMM-1; known are GMM-512, "):
        main(argparse.Namespace(workloads="GMM-1", policy={}))
