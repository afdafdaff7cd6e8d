"""What somebody measured elsewhere: quarantined, measured again by the farm, and only then a record."""

from typing import Any

import pytest

from tests.system.service import Service


@pytest.fixture
def module_json(tmp_path_factory: pytest.TempPathFactory) -> Any:
    import tvm
    from tvm import te

    a, b = te.placeholder((96, 64), name="A"), te.placeholder((64, 80), name="B")
    k = te.reduce_axis((0, 64), name="k")
    c = te.compute((96, 80), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    return tvm.IRModule({"main": te.create_prim_func([a, b, c])})


def traces(mod: Any) -> list[Any]:
    """A good one, and one that reorders nothing and gains nothing."""
    import tvm

    from tilefarm import module
    from tilefarm.space import trace_json

    made = []
    for inner in (16, 1):
        schedule = tvm.s_tir.Schedule(module.workload_of(module.copy_of(mod)).module)
        block = schedule.get_sblock("C")
        i, j, k = schedule.get_loops(block)
        j_0, j_1 = schedule.split(j, [None, inner])
        schedule.reorder(i, j_0, k, j_1)
        if inner > 1:
            schedule.vectorize(j_1)
            schedule.decompose_reduction(block, k)
        made.append(trace_json(schedule))
    return made


def test_an_import_becomes_a_record_when_the_farm_has_measured_it(service: Service, module_json: Any) -> None:
    import tvm
    from tvm.s_tir.meta_schedule.tir_integration import compile_tir

    import tilefarm
    from tilefarm import module

    version = tvm.__version__
    with tilefarm.Client(service.url, service.token, timeout_secs=30) as client:
        brought = client.import_records(
            module.to_json(module.workload_of(module_json).module),
            service.target,
            tvm_version=version,
            records=[{"trace": trace, "run_secs": [1e-9]} for trace in traces(module_json)],
            source="elsewhere",
        )
        assert len(brought["quarantined"]) == 2
        shash = brought["workload"]
        assert client.lookup("local", tvm_version=version, workloads=[shash])["records"] == {}
        asked = client.verify_imports("local", tvm_version=version, workloads=[shash])
        job = service.wait_job(asked["job_id"])
        assert job["state"] == "succeeded", job
        (found,) = client.lookup("local", tvm_version=version, workloads=[shash])["records"][shash]
        key = next(iter(service.get("/v1/signing-keys")["keys"]))["public_key"]
        states = {
            record["verification"]["state"]: record["verification"]["published_id"]
            for record in service.get("/v1/records", workload=shash, state="quarantined")["records"]
        }
    assert found["latency_secs"] > 1e-7, "a claimed time is not believed"
    assert states["published"] == found["record_id"]
    db = tilefarm.connect(service.url, service.token, timeout_secs=20, public_key=key)
    assert compile_tir(db, module_json, db.target("local")) is not None
