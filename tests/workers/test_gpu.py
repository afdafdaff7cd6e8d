"""Candidates timed on a real GPU: not run where there is none, or where NVIDIA's packages are missing."""

import dataclasses
import time
from collections.abc import Iterator

import pytest

from db.states import Outcome
from sandbox.fork_server import ForkServer
from tests.gpus import skip_without_gpu
from tests.workers.conftest import INT32, INT64, Bench, place_reference
from tests.workers.test_cuda import author
from workers.children_server import children_server
from workers.device import Device, detect_target, find_device
from workers.gpu import GpuSensors
from workers.selftest import DeviceTester
from workers.turn import Turn

skip_without_gpu()


@pytest.fixture(scope="module")
def gpu(tmp_path_factory: pytest.TempPathFactory) -> Device:
    return find_device("cuda", num_cores=None, lock_dir=tmp_path_factory.mktemp("locks"))


@pytest.fixture(scope="module")
def gpu_server(gpu: Device, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    with children_server(tmp_path_factory.mktemp("gpu"), device=gpu, target=None) as server:
        yield server


@pytest.fixture
def gpu_bench(bench: Bench, gpu: Device, gpu_server: ForkServer) -> Bench:
    detected = detect_target(gpu_server, num_cores=1, device=gpu)
    return dataclasses.replace(bench, server=gpu_server, device=gpu, detected=detected)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("flush", [False, True])
def test_candidates_are_right_and_timed(gpu_bench, dtype, flush):
    made = author(gpu_bench.server, target=gpu_bench.detected.target, dtype=dtype)
    outcomes = gpu_bench.measure(made["module"], *made["traces"], flush_cache=flush)
    assert [each.outcome for each in outcomes] == [Outcome.OK] * len(made["traces"]), outcomes
    for each in outcomes:
        assert each.run_secs is not None
        # A product of 256 cubed: no GPU takes ten milliseconds, and none a tenth of a microsecond.
        assert all(1e-7 < secs < 1e-2 for secs in each.run_secs)


def test_a_kernel_that_is_not_bound_to_threads_has_an_outcome(gpu_bench):
    made = author(gpu_bench.server, target=gpu_bench.detected.target, dtype="float32")
    (outcome,) = gpu_bench.measure(made["module"], "[[],[]]")
    assert outcome.outcome in (Outcome.BUILD_ERROR, Outcome.RUN_ERROR)


@pytest.mark.parametrize(
    ("name", "parameters", "outcome", "reason"),
    [
        ("endless", INT64, Outcome.RUN_TIMEOUT, "more than 2 s"),
        ("crash", INT32, Outcome.RUN_ERROR, "CUDA Runtime Error"),
        ("more", INT32, Outcome.WRONG_OUTPUT, ""),
    ],
)
def test_a_fault_of_a_kernel_costs_its_own_trial_and_nobody_elses(
    gpu_bench, name, parameters, outcome, reason
):
    module, trace = author(gpu_bench.server, "hostile")[name]
    place_reference(gpu_bench, module, parameters)
    began = time.monotonic()
    (bad,) = gpu_bench.measure(module, trace, run_timeout_secs=2.0)
    assert bad.outcome == outcome, bad
    assert reason in bad.error
    assert time.monotonic() - began < 20
    made = author(gpu_bench.server, target=gpu_bench.detected.target, dtype="float32")
    good = gpu_bench.measure(made["module"], *made["traces"])
    assert {each.outcome for each in good} == {Outcome.OK}, good


def test_sensors_tell_of_a_gpu(gpu):
    told = GpuSensors(uuid=gpu.gpu.uuid).read()
    assert 0 < told["temperature_celsius"] < 120
    assert 0 < told["clock_mhz"] < 10_000


def test_a_gpu_tests_itself(gpu, gpu_server):
    detected = detect_target(gpu_server, num_cores=1, device=gpu)
    tested = DeviceTester(server=gpu_server, device=gpu, target=detected.target, turn=Turn()).run()
    assert tested.roofline.fma_gflops_all_cores > 100.0
    assert tested.roofline.copy_gb_per_sec_all_cores > 10.0
    assert tested.roofline.fma_gflops_one_core is None
    assert tested.noise.reference_secs < 1e-2
