"""The GPUs of this host, as NVIDIA's management library (NVML) tells of them: nothing runs on one by that.

What a GPU is and how it fares stands here; what it can run is asked of CUDA, in a child
(workers/detect_child.py).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workers.errors import DeviceError
from workers.seldom import Seldom

_CLOCK_STEP_MHZ = 15.0
_DEVICES = Path("/dev")
#: Of whichever process opens it: CUDA writes its threads' names there, and without that it does not start
#: ("operation not supported on this OS").
_OWN_THREADS = "/proc/self/task"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    #: As NVIDIA names the model, such as `NVIDIA H200`.
    name: str
    #: GPU-…: of this very device, also where a container sees it under another number.
    uuid: str
    memory_bytes: int
    driver_version: str


def find_gpu(index: int) -> Gpu:
    """The GPU of this number, as NVML counts; raises DeviceError where there is none, or no driver."""
    with _nvml() as nvml:
        count = nvml.nvmlDeviceGetCount()
        if not 0 <= index < count:
            raise DeviceError(f"TILEFARM_WORKER_GPU={index}: this host shows {count} GPUs, counted from 0")
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        return Gpu(
            name=_text(nvml.nvmlDeviceGetName(handle)),
            uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
            memory_bytes=int(nvml.nvmlDeviceGetMemoryInfo(handle).total),
            driver_version=_text(nvml.nvmlSystemGetDriverVersion()),
        )


def device_files() -> tuple[str, ...]:
    """What a process that uses a GPU opens for writing; the driver lets it reach those GPUs that it may."""
    found = [*_DEVICES.glob("nvidia*"), *_DEVICES.glob("nvidia-caps/*")]
    return (*sorted(str(path) for path in found if path.is_char_device()), _OWN_THREADS)


@dataclass(slots=True, kw_only=True)
class GpuSensors(Seldom):
    """Of one GPU; the clock is its multiprocessors'. One that does not answer tells nothing."""

    uuid: str

    def _asked(self) -> dict[str, float]:
        try:
            with _nvml() as nvml:
                handle = nvml.nvmlDeviceGetHandleByUUID(self.uuid)
                celsius = nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)
                mhz = nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)
        except DeviceError:
            return {}
        return {
            "temperature_celsius": float(celsius),
            "clock_mhz": round(mhz / _CLOCK_STEP_MHZ) * _CLOCK_STEP_MHZ,
        }


@contextmanager
def _nvml() -> Iterator[Any]:
    """NVML, open; raises DeviceError where it is not there, and for whatever it refuses meanwhile."""
    try:
        import pynvml
    except ImportError as error:
        raise DeviceError("the package nvidia-ml-py is missing: tilefarm-server[cuda] brings it") from error
    try:
        pynvml.nvmlInit()
        try:
            yield pynvml
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError as error:
        raise DeviceError(f"NVIDIA's driver does not tell of a GPU here: {error}") from error


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
