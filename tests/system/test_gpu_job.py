"""The main job on a GPU: not run where there is none, or where NVIDIA's packages are missing."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from tests.gpus import skip_without_gpu
from tests.system.modules import body
from tests.system.service import Service, accounted, run_service
from tests.waiting import wait_until
from workers.gpu import Gpu, find_gpu

skip_without_gpu()


@pytest.fixture(scope="module")
def gpu() -> Gpu:
    return find_gpu(0)


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """`tilefarm-server up` whose worker times on the GPU."""
    settings = {"TILEFARM_WORKER_DEVICE": "cuda"}
    with run_service(tmp_path_factory.mktemp("gpu") / "data", settings) as running:
        yield running


@pytest.fixture(scope="module")
def tuned(farm: Service) -> dict[str, Any]:
    job = farm.submit(body("mm_relu", max_trials=48))
    return farm.wait_job(job["id"], timeout_secs=240)


def test_a_job_is_tuned_with_every_trial_accounted_for(
    farm: Service, gpu: Gpu, tuned: dict[str, Any]
) -> None:
    assert tuned["state"] == "succeeded", tuned["error"]
    assert farm.target["kind"] == "cuda"
    assert accounted(tuned)
    assert tuned["outcomes"]["ok"] >= 10
    trials = [trial for trial in farm.trials(tuned["id"]) if trial["outcome"] == "ok"]
    assert {gpu.name in trial["device_class"] for trial in trials} == {True}
    # A launch takes two microseconds; these two million multiplications take no millisecond on any GPU.
    assert all(1e-7 < secs < 1e-3 for trial in trials for secs in trial["run_secs"])
    assert 1e-7 < tuned["tasks"][0]["best_latency_secs"] < 1e-4


def test_its_record_is_looked_up_built_and_right(farm: Service, tuned: dict[str, Any]) -> None:
    words = [sys.executable, "-m", "tests.system.gpu_consumer", farm.url, farm.token]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout)
    assert told["tuned"], done.stderr[-3000:]
    assert told["wrong"] < 1e-3
    published = tuned["tasks"][0]["best_latency_secs"]
    assert 0.5 * published < told["secs"] < 2 * published


def test_the_dashboards_worker_is_the_gpu(farm: Service, gpu: Gpu, tuned: dict[str, Any]) -> None:
    assert tuned["state"] == "succeeded"

    def worker() -> dict[str, Any]:
        (view,) = farm.get("/v1/workers")["workers"]
        return view

    assert gpu.name in json.dumps(worker())
    # It tests itself when it has been idle for some seconds.
    wait_until(lambda: "selftest" in worker()["facts"], 60.0)
    assert worker()["facts"]["selftest"]["fma_gflops_all_cores"] > 100


def test_a_job_survives_the_death_of_the_gpus_worker(farm: Service) -> None:
    """Its children die with it, so that the next worker finds the GPU free."""
    job = farm.submit(body("bmm_relu", max_trials=24))
    farm.wait_for(job["id"], lambda view: view["trials"]["done"] >= 4, timeout_secs=120)
    tree = [farm.part("worker"), *farm.part("worker").children(recursive=True)]
    tree[0].send_signal(signal.SIGKILL)
    _gone, alive = psutil.wait_procs(tree, timeout=20)
    assert not alive
    ended = farm.wait_job(job["id"], timeout_secs=240)
    assert ended["state"] == "succeeded", ended["error"]
    assert accounted(ended)
