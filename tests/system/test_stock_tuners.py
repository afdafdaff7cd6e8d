"""What stock MetaSchedule's own tuners measured reaches the farm: from their files, and as they commit it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.system.service import Service

#: Both of stock's tuners, as its users call them; each writes its two files.
_STOCK = """
import sys
import tvm
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule.builder import LocalBuilder
from examples.classroom import modules
from examples.models import models

target = tvm.target.Target({"kind": "llvm", "mcpu": sys.argv[1], "num-cores": 2})
# Each of stock's builders parses all tensor intrinsics first: 33 s on a slow host, over stock's 30 s.
builder = LocalBuilder(timeout_sec=120)
budget = {"max_trials_global": 8, "num_trials_per_iter": 4, "cost_model": "random", "builder": builder}
ms.tune_tir(modules()["mm_relu"], target, sys.argv[2], **budget)
model = models()["mlp"]()
lowered = tvm.relax.get_pipeline("zero")(model.mod)
ms.relax_integration.tune_relax(lowered, model.tensors(), target, sys.argv[3], **budget)
"""
#: The same with our database in the place of stock's.
_CONTRIBUTING = """
import sys
import tilefarm
import tvm
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule.builder import LocalBuilder
from examples.classroom import modules

target = tvm.target.Target({"kind": "llvm", "mcpu": sys.argv[1], "num-cores": 2})
# Each of stock's builders parses all tensor intrinsics first: 33 s on a slow host, over stock's 30 s.
builder = LocalBuilder(timeout_sec=120)
budget = {"max_trials_global": 8, "num_trials_per_iter": 4, "cost_model": "random", "builder": builder}
with tilefarm.connect(mode="read-write") as database:
    ms.tune_tir(modules()["mm"], target, sys.argv[2], database=database, **budget)
    good = [record for record in database.get_all_tuning_records() if float(record.run_secs[0]) < 1e9]
print(len(good))
"""


@pytest.mark.slow
def test_what_stock_tune_tir_and_tune_relax_wrote_is_imported(service: Service, tmp_path: Path) -> None:
    mcpu = str(service.target["mcpu"])
    works = [tmp_path / "tir", tmp_path / "relax"]
    subprocess.run([sys.executable, "-c", _STOCK, mcpu, *map(str, works)], check=True, timeout=480)
    for work in works:
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
        timeout=480,
    )
    committed = int(done.stdout.splitlines()[-1])
    records = service.get("/v1/records", state="quarantined", page_size=200)["records"]
    sources = [record["policy"].get("source") for record in records]
    assert committed > 0
    assert sources.count("commit_tuning_record") == committed
