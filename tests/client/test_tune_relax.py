"""tune_relax: stock's arguments, tasks with their weights on the way to the farm, and what is left out."""

import inspect
import json
import logging
from pathlib import Path
from typing import Any

import httpx
import pytest
import tvm
from tvm.s_tir.meta_schedule import relax_integration

import tilefarm
from examples.mixture import mixture
from examples.models import models
from tests.client.conftest import TARGET, URL, FakeService, problem
from tests.client.test_jobs import answers, stream, view
from tilefarm import module

_TASKS = ["fused_matmul1_add1", "fused_matmul_add_relu"]


@pytest.fixture
def farm() -> FakeService:
    """It takes any job, has finished it at once, and has no record."""
    service = FakeService()
    done = view(5, "succeeded", weighted_latency_secs=2e-5, speedup=4.0, outcomes={"ok": 8})
    service.routes["POST /v1/jobs"] = answers(httpx.Response(201, json=view(1, "queued")))
    service.routes["GET /v1/jobs/7/events"] = answers(stream(("job", view(2)), ("end", done)))
    service.routes["GET /v1/jobs/7"] = answers(httpx.Response(200, json=done))
    return service


def tune(service: FakeService, work_dir: Path, mod: Any, params: Any, **options: Any) -> Any:
    transport = httpx.MockTransport(service)
    return tilefarm.tune_relax(mod, params, TARGET, work_dir, 8, url=URL, transport=transport, **options)


def tune_mlp(service: FakeService, work_dir: Path, **options: Any) -> Any:
    model = models()["mlp"]()
    return tune(service, work_dir, model.mod, model.tensors(), **options)


def submitted(service: FakeService) -> list[dict[str, Any]]:
    return [
        json.loads(request.content)
        for request in service.requests
        if (request.method, request.url.path) == ("POST", "/v1/jobs")
    ]


def functions(body: dict[str, Any]) -> list[str]:
    text = body["module"] if isinstance(body["module"], str) else json.dumps(body["module"])
    return [name for name, _ in module.prim_funcs(module.from_json(text))]


def test_its_arguments_are_stocks_in_stocks_order() -> None:
    stock = inspect.signature(relax_integration.tune_relax).parameters
    ours = inspect.signature(tilefarm.tune_relax).parameters
    assert list(ours)[: len(stock)] == list(stock)
    for name, parameter in stock.items():
        assert ours[name].kind == parameter.kind, name
        assert ours[name].default == parameter.default, name


def test_the_tasks_travel_with_their_weights_and_no_parameter_does(farm: FakeService, tmp_path: Path) -> None:
    model = models()["transformer"](length=8, width=16, heads=2)
    tune(farm, tmp_path, model.mod, model.tensors(), max_trials_per_task=4, num_trials_per_iter=16, seed=3)
    [body] = submitted(farm)
    assert sorted(body["weights"]) == functions(body)
    assert body["weights"]["fused_matmul_add"] == 3
    assert {name: body[name] for name in ("max_trials", "max_trials_per_task", "seed", "options")} == {
        "max_trials": 8,
        "max_trials_per_task": 4,
        "seed": 3,
        "options": {"batch_size": 16},
    }
    assert "ffi.Tensor" not in json.dumps(body)
    assert (tmp_path / "logs" / "tilefarm.log").read_text().count("job 7") == 1


def test_what_travels_is_what_the_returned_database_is_asked(farm: FakeService, tmp_path: Path) -> None:
    model = models()["mlp"]()
    database = tune_mlp(farm, tmp_path)
    relax_integration.compile_relax(database, model.mod, tvm.target.Target(TARGET), model.tensors())
    [body] = submitted(farm)
    sent = module.prim_funcs(module.from_json(json.dumps(body["module"])))
    asked = [set(found["workloads"]) for found in farm.bodies() if "workloads" in found]
    assert asked == [{module.structural_hash(module.canonical(func)) for _, func in sent}]


@pytest.mark.parametrize(
    ("options", "left"),
    [
        ({}, _TASKS),
        ({"op_names": ["relu"]}, ["fused_matmul_add_relu"]),
        ({"op_names": ["matmul", "relu"]}, _TASKS),
        ({"special_space": {"fused_matmul1_add1": None}}, ["fused_matmul_add_relu"]),
    ],
)
def test_op_names_and_a_special_space_of_none_pick_the_tasks(
    farm: FakeService, tmp_path: Path, options: dict[str, Any], left: list[str]
) -> None:
    tune_mlp(farm, tmp_path, **options)
    [body] = submitted(farm)
    assert functions(body) == left == sorted(body["weights"])


def test_a_special_space_travels_with_its_task(farm: FakeService, tmp_path: Path) -> None:
    def parallel(schedule: Any) -> None:
        block = schedule.get_sblock("compute", func_name="main")
        schedule.parallel(schedule.fuse(*schedule.get_loops(block)))

    tune_mlp(farm, tmp_path, special_space={"fused_matmul_add_relu": parallel})
    [body] = submitted(farm)
    assert list(body["spaces"]) == ["fused_matmul_add_relu"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"op_names": ["conv"]}, "leave no task; the model has fused_matmul1_add1, fused_matmul_add_relu"),
        ({"pipeline": "fastest"}, "there is no pipeline 'fastest'"),
        ({"pipeline": "as_is"}, "no function that can be tuned"),
    ],
)
def test_nothing_to_tune_is_an_error_that_says_why(
    farm: FakeService, tmp_path: Path, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(tilefarm.ModuleError, match=words):
        tune_mlp(farm, tmp_path, **options)
    assert submitted(farm) == []


def test_a_parameter_that_the_model_lacks_is_an_error_that_names_it(
    farm: FakeService, tmp_path: Path
) -> None:
    strange = {"w9": tvm.runtime.tensor(models()["mlp"]().params["linear0_bias"])}
    with pytest.raises(tilefarm.ModuleError, match="w9"):
        tune(farm, tmp_path, models()["mlp"]().mod, strange)


def test_a_callback_cannot_travel(farm: FakeService, tmp_path: Path) -> None:
    with pytest.raises(tilefarm.CannotTravelError, match=r"^runner: "):
        tune_mlp(farm, tmp_path, runner=print)


def test_functions_outside_the_module_are_told_of(
    farm: FakeService, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="tilefarm"):
        tune(farm, tmp_path, mixture(), None, pipeline="as_is")
    [body] = submitted(farm)
    assert (functions(body), body["weights"]) == (["linear0"], {"linear0": 1})
    assert "env.relu is not tuned (external_call)" in caplog.text


def test_a_function_that_the_service_refuses_does_not_cost_the_others(
    farm: FakeService, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    taken = farm.routes["POST /v1/jobs"]

    def picky(request: httpx.Request) -> httpx.Response:
        if "fused_matmul1_add1" in json.loads(request.content)["weights"]:
            cause = {"code": "disallowed_op", "function": "fused_matmul1_add1", "detail": "call_extern"}
            return problem(422, "disallowed_op", "call_extern", errors=[cause])
        return taken(request)

    farm.routes["POST /v1/jobs"] = picky
    tune_mlp(farm, tmp_path)
    assert [functions(body) for body in submitted(farm)] == [_TASKS, ["fused_matmul_add_relu"]]
    assert "fused_matmul1_add1 is not tuned (disallowed_op)" in caplog.text


def test_where_the_service_refuses_every_function_its_error_comes_through(
    farm: FakeService, tmp_path: Path
) -> None:
    causes = [{"code": "disallowed_op", "function": name, "detail": "call_extern"} for name in _TASKS]
    farm.routes["POST /v1/jobs"] = answers(problem(422, "disallowed_op", "call_extern", errors=causes))
    with pytest.raises(tilefarm.ProblemError, match="call_extern"):
        tune_mlp(farm, tmp_path)
