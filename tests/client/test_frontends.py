"""Models of other frameworks: what is missing is said; what is there is tuned as any Relax model."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm

import tilefarm
from tests.client.conftest import TARGET
from tilefarm import model_tuning


@pytest.mark.parametrize(
    ("package", "call"),
    [
        ("onnx", lambda: tilefarm.from_onnx("model.onnx")),
        ("torch", lambda: tilefarm.from_torch(None, [])),
    ],
)
def test_a_missing_framework_is_an_error_that_says_what_to_install(
    package: str, call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(tilefarm.MissingExtraError, match=rf"pip install 'tilefarm\[{package}\]'") as raised:
        call()
    assert raised.value.package == package


def task_names(mod: Any, params: Any) -> list[str]:
    target = tvm.target.Target(TARGET)
    return [task.name for task in model_tuning.tunable(mod, params, target, pipeline="compile_relax")]


def test_an_onnx_file_is_a_model(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx", reason="the extra tilefarm[onnx] is not installed")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    weight = onnx.numpy_helper.from_array(np.ones((16, 8), "float32"), "weight")
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "weight"], ["product"]),
            helper.make_node("Relu", ["product"], ["out"]),
        ],
        "graph",
        [helper.make_tensor_value_info("x", kind, [4, 16])],
        [helper.make_tensor_value_info("out", kind, [4, 8])],
        [weight],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "model.onnx")
    mod, params = tilefarm.from_onnx(tmp_path / "model.onnx")
    assert [value.numpy().shape for value in params.values()] == [(16, 8)]
    assert task_names(mod, params) == ["fused_matmul_relu"]


@pytest.mark.filterwarnings("ignore::FutureWarning")  # torch warns TVM's front end of changes to come
def test_a_torch_module_is_a_model() -> None:
    torch = pytest.importorskip("torch", reason="the extra tilefarm[torch] is not installed")
    module = torch.nn.Sequential(torch.nn.Linear(16, 8), torch.nn.ReLU())
    mod, params = tilefarm.from_torch(module, [torch.zeros(4, 16)])
    assert sorted(value.numpy().shape for value in params.values()) == [(8,), (8, 16)]
    assert task_names(mod, params) == ["fused_matmul_add_relu"]
