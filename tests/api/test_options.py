"""The options of a job, as docs/operations.md tells them: all, with the defaults of the measure policy."""

import re
from pathlib import Path

import pytest

from services.api import options
from workers.messages import MeasurePolicy

DOCS = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")
FLAGS = {"true": True, "false": False}


def told(heading: str) -> dict[str, str]:
    """Option → default, of the table below a heading; a row may tell of several."""
    section = DOCS.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    found = {}
    for names, defaults in re.findall(r"^\| (`[^|]+`) \| ([^|]+) \|", section, re.MULTILINE):
        each = [name.strip(" `") for name in names.split(",")]
        found |= dict(zip(each, (text.strip() for text in defaults.split(",")), strict=True))
    return found


@pytest.mark.parametrize(
    ("heading", "names"),
    [
        ("What a job may say about measuring", {*options._POLICY_BOUNDS, "input_ranges"}),
        ("What a job may say about searching", {*options._SEARCH_BOUNDS, "isolation_key"}),
        ("When a task may stop early", set(options._STOP_BOUNDS)),
    ],
)
def test_every_option_stands_in_its_table(heading: str, names: set[str]) -> None:
    assert told(heading).keys() == names


def test_the_measure_policys_defaults_are_the_ones_told() -> None:
    policy = MeasurePolicy()
    for name, text in told("What a job may say about measuring").items():
        if name == "input_ranges":
            continue
        number, _, unit = text.partition(" ")
        shown = FLAGS[text] if text in FLAGS else float(number) * (1 << 30 if unit == "GiB" else 1)
        assert getattr(policy, name) == shown, name
