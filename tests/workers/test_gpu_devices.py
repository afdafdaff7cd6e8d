"""What a GPU is to the farm, without one: names, files, archs, and refusals in plain words."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from sandbox.limits import Limits
from tuner.errors import UnknownTargetError
from tuner.gpu_target import check_gpu, runs
from workers.children_server import children_server
from workers.cuda_code import _decoded
from workers.device import detect_target, find_device
from workers.errors import DeviceError, ProgramError
from workers.gpu import GpuSensors

H100 = {"kind": "cuda", "arch": "sm_90a", "max_threads_per_block": 1024, "max_shared_memory_per_block": 49152}


class Nvml(SimpleNamespace):
    """NVIDIA's library as this module calls it, with one GPU."""

    class NVMLError(Exception):
        pass

    NVML_TEMPERATURE_GPU, NVML_CLOCK_SM = 0, 1
    open_count = 0

    def nvmlInit(self) -> None:  # noqa: N802 - NVIDIA's names
        self.open_count += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.open_count -= 1

    def __getattr__(self, name: str) -> Any:
        answers = {
            "nvmlDeviceGetCount": 1,
            "nvmlDeviceGetHandleByIndex": "handle",
            "nvmlDeviceGetHandleByUUID": "handle",
            "nvmlDeviceGetName": b"NVIDIA H100 80GB HBM3",
            "nvmlDeviceGetUUID": "GPU-0123abcd-0000",
            "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=80 << 30),
            "nvmlSystemGetDriverVersion": "580.65.06",
            "nvmlDeviceGetTemperature": 41,
            "nvmlDeviceGetClockInfo": 1_972,
        }
        return lambda *_arguments: answers[name]


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> Nvml:
    found = Nvml()
    monkeypatch.setitem(sys.modules, "pynvml", found)
    return found


def test_a_gpu_is_a_device_of_its_own(nvml: Nvml, tmp_path):
    device = find_device("cuda", num_cores=1, lock_dir=tmp_path)
    assert (device.kind, device.name, device.device_class) == (
        "cuda",
        "gpu-0123abcd",
        "NVIDIA H100 80GB HBM3",
    )
    assert device.memory_bytes == 80 << 30
    assert device.facts["driver_version"] == "580.65.06"
    assert [lock.path.name for lock in device.locks] == ["GPU-0123abcd-0000.lock"]
    limits = device.limits(Limits(cpu_secs=7.0))
    assert (limits.address_space_bytes, limits.cpu_secs) == (None, 7.0)
    assert limits.may_start_processes
    assert nvml.open_count == 0


def test_a_gpu_that_is_not_there_is_named(nvml: Nvml, tmp_path):
    with pytest.raises(DeviceError, match="TILEFARM_WORKER_GPU=1: this host shows 1 GPUs"):
        find_device("cuda", num_cores=None, lock_dir=tmp_path, gpu=1)
    assert nvml.open_count == 0


def test_a_host_without_a_driver_says_so(nvml: Nvml, tmp_path, monkeypatch):
    def fails() -> None:
        raise Nvml.NVMLError("Library Not Found")

    monkeypatch.setattr(nvml, "nvmlInit", fails, raising=False)
    with pytest.raises(DeviceError, match="NVIDIA's driver does not tell of a GPU here: Library Not Found"):
        find_device("cuda", num_cores=None, lock_dir=tmp_path)


def test_a_python_without_nvidias_package_says_what_brings_it(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(DeviceError, match=r"nvidia-ml-py is missing: tilefarm-server\[cuda\] brings it"):
        find_device("cuda", num_cores=None, lock_dir=tmp_path)


def test_sensors_of_a_gpu_that_is_gone_tell_nothing(nvml: Nvml, monkeypatch):
    sensors = GpuSensors(uuid="GPU-0123abcd-0000", every_secs=0.0)
    assert sensors.read() == {"temperature_celsius": 41.0, "clock_mhz": 1965.0}
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert sensors.read() == {}


@pytest.mark.parametrize(
    ("arch", "device", "expected"),
    [
        ("sm_80", "sm_80", True),
        ("sm_80", "sm_86", True),
        ("sm_86", "sm_80", False),
        ("sm_75", "sm_80", False),
        ("sm_90", "sm_90a", True),
        ("sm_90a", "sm_90a", True),
        ("sm_100a", "sm_103a", False),
        ("sm_100f", "sm_103a", True),
        ("sm_120", "sm_100a", False),
    ],
)
def test_machine_code_runs_within_its_major_version(arch, device, expected):
    assert runs(arch, device) is expected


def test_a_target_that_the_gpu_does_not_run_is_mislabelled():
    check_gpu(H100, features=["avx2", "sm_90a"])
    with pytest.raises(UnknownTargetError, match="sm_90a does not run on this host's GPU, an sm_86"):
        check_gpu(H100, features=["avx2", "sm_86"])
    with pytest.raises(UnknownTargetError, match="this host times on none"):
        check_gpu(H100, features=["avx2"])


def test_a_cpus_worker_times_for_no_gpus_target(server):
    with pytest.raises(DeviceError, match="this host times on none"):
        detect_target(server, num_cores=1, target=H100)


def test_what_only_builds_serves_a_gpus_target(server):
    detected = detect_target(server, num_cores=1, target=H100, times=False)
    assert detected.target["arch"] == "sm_90a"
    assert detected.own_target is not None
    assert detected.own_target["kind"] == "llvm"


def test_what_is_missing_to_compile_is_named(monkeypatch, tmp_path):
    device = find_device("cpu", num_cores=1, lock_dir=tmp_path / "locks")
    monkeypatch.setattr("workers.cuda_packages.find_spec", lambda _name: None)
    with pytest.raises(
        DeviceError, match=r"libcudart.so.13 of CUDA 13 is not installed; pip install .*\[cuda\]"
    ):
        children_server(tmp_path, device=device, target={"tag": "nvidia/nvidia-h100"})


@pytest.mark.parametrize("text", ["__global__ void main() {}", "// tilefarm: machine code ???"])
def test_a_kernel_that_holds_no_machine_code_is_refused(text):
    with pytest.raises(ProgramError, match=r"came as source|does not read"):
        _decoded(text)
