"""The intake child takes a Relax model apart: tasks with weights, what is not tuned, and typed errors."""

import json
from typing import Any

import pytest
import tvm
from tvm import relax
from tvm.relax import op

from checks.tensors import fold_weights
from examples.mixture import mixture
from examples.models import models
from tests.tuner.test_extraction import asked_by_compile_relax, asked_by_static_shape_tuning
from tuner.intake import answer

TARGET = {"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2}


def model_answer(mod: tvm.IRModule, *, pipeline: str = "compile_relax", **more: Any) -> dict[str, Any]:
    text = json.dumps(fold_weights(json.loads(tvm.ir.save_json(mod))))
    return answer({"op": "model", "module": text, "target": TARGET, "pipeline": pipeline, **more})


def codes(reply: dict[str, Any], kind: str) -> list[tuple[str, str | None]]:
    return [(entry["code"], entry["function"]) for entry in reply[kind]]


def relu_of(shape: Any) -> tvm.IRModule:
    x = relax.Var("x", relax.TensorType(shape, "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(op.nn.relu(x)))
    return builder.get()


@pytest.mark.parametrize(
    ("pipeline", "asked"),
    [("compile_relax", asked_by_compile_relax), ("static_shape_tuning", asked_by_static_shape_tuning)],
)
@pytest.mark.parametrize("name", ["mlp", "conv_bn"])
def test_a_model_without_its_weights_has_the_keys_that_its_compile_asks_for(
    name: str, pipeline: str, asked: Any
) -> None:
    mod = models()[name]().bound()
    reply = model_answer(mod, pipeline=pipeline)
    found = {function["shash"] for function in reply["functions"]}
    views = [entry["function"] for entry in reply["warnings"]]
    assert views == ([] if name == "mlp" else ["reshape"])
    wanted = {shash for shash, _ in asked(mod, tvm.target.Target(TARGET)).asked}
    assert found < wanted if views else found == wanted
    assert len(wanted) == len(found) + len(views)


def test_bound_parameters_need_not_travel() -> None:
    model = models()["linear"]()
    bound = model_answer(model.mod, bound_params=list(model.params))
    assert [function["name"] for function in bound["functions"]] == ["fused_matmul_add"]
    assert bound["functions"][0]["shash"] == model_answer(model.bound())["functions"][0]["shash"]
    assert len(model_answer(model.mod)["functions"]) == 2


def test_each_task_has_its_weight_and_is_ready_to_be_tuned() -> None:
    functions = {
        function["name"]: function
        for function in model_answer(models()["transformer"]().bound())["functions"]
    }
    assert functions["fused_matmul_add"]["weight"] == 3
    assert functions["fused_matmul_add"]["flops"] == 64 * 256 * (2 * 256 + 1)
    assert functions["fused_matmul_add"]["args"][0] == {"shape": [1, 64, 256], "dtype": "float32"}


def test_op_names_pick_tasks_and_an_outside_function_is_a_warning() -> None:
    reply = model_answer(models()["mlp"]().bound(), op_names=["relu"])
    assert [function["name"] for function in reply["functions"]] == ["fused_matmul_add_relu"]
    assert codes(model_answer(mixture()), "warnings") == [
        ("external_call", "env.linear"),
        ("external_call", "env.relu"),
    ]


def test_a_space_travels_with_its_task_and_one_without_a_task_is_an_error(mm_space: Any) -> None:
    reply = model_answer(mixture(), spaces={"nobody": mm_space})
    assert codes(reply, "errors") == [("bad_space", "nobody")]


@pytest.mark.parametrize(
    ("mod", "more", "code"),
    [
        (lambda: relu_of((tvm.tirx.Var("n", "int64"), 4)), {}, "symbolic_shape"),
        (lambda: relu_of((4, 4)), {"pipeline": "as_is"}, "no_tunable_function"),
        (lambda: relu_of((4, 4)), {"op_names": ["conv"]}, "no_tunable_function"),
        (lambda: relu_of((4, 4)), {"bound_params": ["w"]}, "unknown_parameter"),
        (lambda: relu_of((4, 4)), {"pipeline": "fastest"}, "not_lowered"),
    ],
    ids=["dynamic", "nothing lowered", "nothing picked", "no such parameter", "no such pipeline"],
)
def test_what_cannot_be_extracted_is_a_typed_error(mod: Any, more: dict[str, Any], code: str) -> None:
    reply = model_answer(mod(), **more)
    assert [entry["code"] for entry in reply["errors"]] == [code]
    assert reply["functions"] == []


def test_a_kernel_that_calls_outside_is_left_out_and_said() -> None:
    """TVM lowers some operators to a library's function, which no worker runs."""
    x = relax.Var("x", relax.TensorType((4, 64), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            hidden = builder.emit(op.exp(x))
            out = builder.emit_output(builder.emit(op.sort(hidden, axis=1)))
        builder.emit_func_output(out)
    reply = model_answer(builder.get())
    assert [function["name"] for function in reply["functions"]] == ["tir_exp"]
    assert codes(reply, "warnings") == [("already_scheduled", "sort")]
