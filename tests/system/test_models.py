"""A whole model through the whole system: submitted as Relax, tuned, compiled by stock's compile_relax."""

import json
from typing import Any

import numpy as np

from tests.system.service import Service, accounted


def test_the_classrooms_mlp_end_to_end(service: Service) -> None:
    import tvm
    from tvm.relax import VirtualMachine
    from tvm.s_tir.meta_schedule.relax_integration import compile_relax

    import tilefarm
    from checks.tensors import fold_weights
    from examples.models import models

    model = models()["mlp"]()
    graph = fold_weights(json.loads(tvm.ir.save_json(model.bound())))
    budget = {"max_trials": 16, "max_trials_per_task": 8}
    job = service.submit({"module": graph, "target": "local", "seed": 41, "name": "mlp", **budget})
    assert {task["name"]: task["weight"] for task in job["tasks"]} == {
        "fused_matmul1_add1": 1.0,
        "fused_matmul_add_relu": 1.0,
    }
    job = service.wait_job(job["id"])
    assert job["state"] == "succeeded", job
    assert accounted(job)
    assert job["outcomes"].get("wrong_output", 0) == 0
    assert all(task["record_id"] for task in job["tasks"])
    with tilefarm.connect(service.url, service.token) as database:
        executable = compile_relax(database, model.mod, tvm.target.Target(service.target), model.tensors())
        assert (database.stats().hits, database.stats().misses) == (2, 0)
    (x,) = model.inputs
    got = VirtualMachine(executable, tvm.cpu())["main"](tvm.runtime.tensor(x)).numpy()
    np.testing.assert_allclose(got, mlp_in_numpy(x, model.params), rtol=1e-4, atol=1e-5)


def mlp_in_numpy(x: Any, params: dict[str, Any]) -> Any:
    hidden = np.maximum(x @ params["linear0_weight"].T + params["linear0_bias"], 0)
    return hidden @ params["linear1_weight"].T + params["linear1_bias"]
