"""The table of whole models: ratios are of what was measured, and earlier runs on this machine stay in it."""

import json
from pathlib import Path

import pytest

from bench import models, report
from bench.machine import this_machine


def measured(untuned_secs: float, tuned_secs: float) -> dict[str, object]:
    return {
        "untuned_secs": untuned_secs,
        "tuned_secs": tuned_secs,
        "difference": 2e-7,
        "hits": 3,
        "misses": 1,
        "tasks": 3,
        "trials": 96,
        "tuning_secs": 21.4,
        "target": {"kind": "llvm", "mcpu": "x86-64-v4", "num-cores": 2},
        "commit": "abc",
    }


def test_a_row_says_how_much_faster_the_model_became() -> None:
    text = models._table({"models": {"cnn": measured(2e-3, 1e-4)}})
    assert "| cnn | 3 | 96 | 21 | 2000.0 | 100.0 | **20.0** | 3, 1 | 2e-07 |" in text
    assert "mcpu=x86-64-v4" in text


def test_models_stand_in_one_order_whenever_they_were_measured() -> None:
    text = models._table({"models": {"cnn": measured(2e-3, 1e-4), "mlp": measured(1e-4, 1e-5)}})
    assert text.index("| mlp |") < text.index("| cnn |")


@pytest.mark.parametrize(("machine", "kept"), [(None, ["mlp"]), ("another", [])])
def test_runs_on_another_machine_are_not_kept(
    machine: str | None, kept: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    found = {"machine": machine or this_machine().key, "models": {"mlp": measured(1e-4, 1e-5)}}
    (tmp_path / "models.json").write_text(json.dumps(found))
    assert list(models._kept()["models"]) == kept
