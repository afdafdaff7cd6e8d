"""The table of the measure policy."""

from bench.policy import table


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
