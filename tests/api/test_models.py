"""Relax models over HTTP: one task per workload with its weight; what is refused, and why."""

import json
from typing import Any

import pytest
import tvm
from tvm import relax, te

from examples.mixture import mixture
from examples.models import models
from tests.api.conftest import TARGET, problem
from tests.tuner.test_model import relu_of


def submit(api: Any, mod: tvm.IRModule, **fields: Any) -> Any:
    body = {"module": json.loads(tvm.ir.save_json(mod)), "target": TARGET, "max_trials": 64, **fields}
    return api("POST", "/v1/jobs", json=body)


def test_a_model_becomes_a_task_for_each_workload_with_its_weight(api) -> None:
    response = submit(api, models()["conv_bn"]().bound(), weights={"softmax": 2.5})
    assert response.status_code == 201, response.text
    job = response.json()
    assert {task["name"]: task["weight"] for task in job["tasks"]} == {
        "conv2d": 1.0,
        "fused_batch_norm_relu": 1.0,
        "max_pool2d": 1.0,
        "softmax": 2.5,
    }
    warned = {warning["code"]: warning["function"] for warning in job["warnings"]}
    assert warned == {"becomes_view": "reshape", "no_worker": None}


def test_weights_need_not_travel(api) -> None:
    model = models()["mlp"]()
    light = submit(api, model.mod, bound_params=list(model.params), op_names=["relu"]).json()
    full = submit(api, model.bound()).json()
    assert [task["name"] for task in light["tasks"]] == ["fused_matmul_add_relu"]
    assert light["tasks"][0]["search_id"] in {task["search_id"] for task in full["tasks"]}


def test_the_mixture_has_one_task_and_tells_what_it_leaves_alone(api) -> None:
    job = submit(api, mixture(), pipeline="as_is").json()
    assert [(task["name"], task["weight"]) for task in job["tasks"]] == [("linear0", 1.0)]
    assert [warning["function"] for warning in job["warnings"] if warning["code"] == "external_call"] == [
        "env.linear",
        "env.relu",
    ]


def test_a_function_that_passes_gave_an_endless_name_is_tuned_all_the_same(api) -> None:
    builder = relax.BlockBuilder()
    value = x = relax.Var("x", relax.TensorType((4, 4), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            for _ in range(45):
                value = builder.emit(relax.op.sigmoid(value))
            out = builder.emit_output(value)
        builder.emit_func_output(out)
    response = submit(api, builder.get())
    assert response.status_code == 201, response.text
    (task,) = response.json()["tasks"]
    assert len(task["name"]) == 300


@pytest.mark.parametrize(
    ("mod", "fields", "code"),
    [
        (lambda: relu_of((tvm.tirx.Var("n", "int64"), 4)), {}, "symbolic_shape"),
        (lambda: relu_of((4, 4)), {"pipeline": "as_is"}, "no_tunable_function"),
        (lambda: relu_of((4, 4)), {"bound_params": ["w"]}, "unknown_parameter"),
        (lambda: tvm.IRModule({"f": mixture()["linear0"]}), {"pipeline": "compile_relax"}, "not_a_model"),
    ],
    ids=["dynamic", "nothing lowered", "no such parameter", "no model"],
)
def test_what_cannot_be_extracted_is_refused_with_its_cause(api, mod, fields, code) -> None:
    assert problem(submit(api, mod(), **fields), 422)["code"] == code


def test_folding_a_constant_for_ever_is_the_clients_fault(api, app, settings, fork_server, engine) -> None:
    """What a model computes of constants runs in the child; it cannot outlive its limits."""
    from services.api.app import attach

    attach(app, settings.model_copy(update={"intake_model_cpu_secs": 1.0}), fork_server)
    body = problem(submit(api, endless()), 422)
    assert body["code"] == "model_crashes_loader"


def endless() -> tvm.IRModule:
    """10^13 additions on a constant."""
    x = te.placeholder((1,), name="x")
    k = te.reduce_axis((0, 10**7), name="k")
    j = te.reduce_axis((0, 10**6), name="j")
    total = te.compute((1,), lambda i: te.sum(te.exp(x[i] + k.astype("float32") * j), axis=[k, j]))
    builder = relax.BlockBuilder()
    y = relax.Var("y", relax.TensorType((1,), "float32"))
    with builder.function("main", [y]):
        with builder.dataflow():
            kernel = te.create_prim_func([x, total]).with_attr("global_symbol", "endless")
            func = builder.add_func(kernel, "endless")
            folded = builder.emit(
                relax.call_tir(func, (relax.const([1.0], "float32"),), relax.TensorType((1,), "float32"))
            )
            out = builder.emit_output(relax.op.add(folded, y))
        builder.emit_func_output(out)
    return builder.get()
