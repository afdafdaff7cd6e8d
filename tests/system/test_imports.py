"""What somebody measured elsewhere: quarantined, measured again by the farm, and only then a record."""

import json
import os
import subprocess
import sys
from pathlib import Path
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


#: Both of stock's tuners, as its users call them; each writes its two files.
_STOCK = """
import sys
import tvm
from tvm.s_tir import meta_schedule as ms
from examples.classroom import modules
from examples.models import models

target = tvm.target.Target({"kind": "llvm", "mcpu": sys.argv[1], "num-cores": 2})
budget = {"max_trials_global": 8, "num_trials_per_iter": 4, "cost_model": "random"}
ms.tune_tir(modules()["mm_relu"], target, sys.argv[2], **budget)
model = models()["mlp"]()
ms.relax_integration.tune_relax(model.mod, model.tensors(), target, sys.argv[3], **budget)
"""
#: The same with our database in the place of stock's.
_CONTRIBUTING = """
import sys
import tilefarm
import tvm
from tvm.s_tir import meta_schedule as ms
from examples.classroom import modules

target = tvm.target.Target({"kind": "llvm", "mcpu": sys.argv[1], "num-cores": 2})
budget = {"max_trials_global": 8, "num_trials_per_iter": 4, "cost_model": "random"}
with tilefarm.connect(mode="read-write") as database:
    ms.tune_tir(modules()["mm"], target, sys.argv[2], database=database, **budget)
    good = [record for record in database.get_all_tuning_records() if float(record.run_secs[0]) < 1e9]
print(len(good))
"""


@pytest.mark.slow
def test_what_stock_tune_tir_and_tune_relax_wrote_is_imported(service: Service, tmp_path: Path) -> None:
    mcpu = str(service.target["mcpu"])
    works = [tmp_path / "tir", tmp_path / "relax"]
    subprocess.run([sys.executable, "-c", _STOCK, mcpu, *map(str, works)], check=True, timeout=240)
    for work, workloads in zip(works, (1, 2), strict=True):
        written = (work / "database_tuning_record.json").read_text().splitlines()
        done = subprocess.run(
            [sys.executable, "-m", "tilefarm", "import", str(work), "-o", "json"],
            env={**os.environ, "TILEFARM_URL": service.url, "TILEFARM_TOKEN": service.token},
            capture_output=True,
            text=True,
            check=True,
        )
        counts = json.loads(done.stdout)
        taken = counts.pop("quarantined") + counts.pop("known")
        assert taken > 0
        assert taken + counts.pop("failed_measurements") == len(written)
        assert set(counts.values()) == {0}, counts
        assert len((work / "database_workload.json").read_text().splitlines()) == workloads


@pytest.mark.slow
def test_what_a_stock_tuning_run_commits_to_our_database_is_imported(
    service: Service, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _CONTRIBUTING, str(service.target["mcpu"]), str(tmp_path)],
        env={**os.environ, "TILEFARM_URL": service.url, "TILEFARM_TOKEN": service.token},
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    committed = int(done.stdout.splitlines()[-1])
    records = service.get("/v1/records", state="quarantined", page_size=200)["records"]
    sources = [record["policy"].get("source") for record in records]
    assert committed > 0
    assert sources.count("commit_tuning_record") == committed
