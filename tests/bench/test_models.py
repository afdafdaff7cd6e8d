"""The table of whole models: ratios are of what was measured, and earlier runs on this machine stay in it."""

import json
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm.relax import VirtualMachine
from tvm.s_tir.meta_schedule.database import MemoryDatabase
from tvm.s_tir.meta_schedule.relax_integration import compile_relax

from bench import models, report
from bench.machine import this_machine
from examples.models import models as example_models
from examples.models import transformer
from examples.models_in_numpy import in_numpy


def measured(untuned_secs: float, tuned_secs: float) -> dict[str, object]:
    return {
        "untuned_secs": untuned_secs,
        "tuned_secs": tuned_secs,
        "difference": 2e-7,
        "difference_to_numpy": 3e-7,
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
    assert "| cnn | 3 | 96 | 21 | 2000.0 | 100.0 | **20.0** | 3, 1 | 2e-07 | 3e-07 |" in text
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


@pytest.mark.parametrize("name", ["mlp", "cnn", "transformer"])
def test_the_models_compute_what_numpy_does(name: str) -> None:
    """The table's outputs are held to the same."""
    model = transformer(length=8, width=16, heads=2) if name == "transformer" else example_models()[name]()
    target = tvm.target.Target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2})
    executable = compile_relax(MemoryDatabase(), model.mod, target, model.tensors())
    machine = VirtualMachine(executable, tvm.cpu())
    got = machine["main"](*(tvm.runtime.tensor(value) for value in model.inputs)).numpy()
    np.testing.assert_allclose(got, in_numpy(name, model, heads=2), rtol=1e-4, atol=1e-5)
