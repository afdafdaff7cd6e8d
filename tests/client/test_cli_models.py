"""`tilefarm submit` with a Relax model: what travels of it, from a JSON file and from Python."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
import tvm

from examples.models import models
from tests.client.conftest import TARGET, URL, FakeService
from tests.client.test_jobs import answers, view
from tilefarm.cli.main import main

_PYTHON = """
from examples.models import models
CNN = models()["cnn"]().bound()
MLP = models()["mlp"]().bound()
"""


@pytest.fixture
def farm() -> FakeService:
    service = FakeService()
    service.routes["POST /v1/jobs"] = answers(httpx.Response(201, json=view(1, "queued")))
    return service


def submit(service: FakeService, *words: str) -> int:
    transport = httpx.MockTransport(service)
    return main(["submit", *words, "--url", URL, "--token", "t"], transport=transport)


def sent(service: FakeService) -> dict[str, Any]:
    (body,) = service.bodies()
    return dict(body)


def test_a_models_weights_stay_here(farm: FakeService, tmp_path: Path) -> None:
    path = tmp_path / "mlp.json"
    path.write_text(tvm.ir.save_json(models()["mlp"]().bound()))
    assert submit(farm, str(path), "--pipeline", "static_shape_tuning", "--op-name", "relu") == 0
    body = sent(farm)
    assert (body["pipeline"], body["op_names"], body["name"]) == ("static_shape_tuning", ["relu"], "mlp")
    assert len(json.dumps(body)) < 20_000 < path.stat().st_size / 20
    assert [len(node["data"]) < 100 for node in body["module"]["nodes"] if node["type"] == "ffi.Tensor"] == [
        True
    ] * 4


def test_a_python_files_model_is_picked_by_its_name(farm: FakeService, tmp_path: Path) -> None:
    path = tmp_path / "nets.py"
    path.write_text(_PYTHON)
    assert submit(farm, str(path)) == 2, "two models, and none was picked"
    assert submit(farm, str(path), "--function", "MLP") == 0
    text = json.dumps(sent(farm)["module"])
    assert "relax.matmul" in text
    assert len(text) < 20_000


def test_functions_have_no_pipeline_to_be_told(farm: FakeService, tmp_path: Path) -> None:
    """A module of TensorIR travels as before; what it asks is for the service to judge."""
    path = tmp_path / "linear0.json"
    path.write_text(tvm.ir.save_json(tvm.IRModule({"linear0": models_linear0()})))
    assert submit(farm, str(path)) == 0
    assert "pipeline" not in sent(farm)


def models_linear0() -> Any:
    from examples.classroom import modules

    return modules()["linear0"]["linear0"]


def test_coverage_weighs_a_models_tasks_by_their_calls(
    farm: FakeService, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "block.json"
    path.write_text(tvm.ir.save_json(models()["transformer"](length=8, width=16, heads=2).bound()))
    words = [
        "coverage",
        str(path),
        "--target",
        json.dumps(TARGET),
        "-o",
        "json",
        "--url",
        URL,
        "--token",
        "t",
    ]
    assert main(words, transport=httpx.MockTransport(farm)) == 0
    found = json.loads(capsys.readouterr().out)
    weights = {task["functions"][0]: task["weight"] for task in found["tasks"]}
    assert weights["fused_matmul_add"] == 3
    assert sum(weights.values()) == 15
    assert {task["result"] for task in found["tasks"]} == {"near"}


def test_a_models_lock_file_pins_what_its_compile_asks_for(farm: FakeService, tmp_path: Path) -> None:
    path, lock = tmp_path / "mlp.json", tmp_path / "tilefarm.lock"
    path.write_text(tvm.ir.save_json(models()["mlp"]().bound()))
    words = ["lock", str(path), "--target", json.dumps(TARGET), "-o", str(lock), "--url", URL, "--token", "t"]
    assert main(words, transport=httpx.MockTransport(farm)) == 0
    assert "fused_matmul_add_relu" in lock.read_text()
