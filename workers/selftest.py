"""What a device can do, measured in sandbox children: peak, bandwidth, noise. `tilefarm-server selftest` too.

It measures; what a slow result means is workers/drift.py's, and when to measure is workers/selftester.py's.
"""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, Self

from sandbox.fork_server import ForkServer
from sandbox.limits import Limits
from workers.device import Device
from workers.errors import DeviceError
from workers.turn import Turn

#: Counts up when the reference kernel changes: its times of before say nothing then.
REFERENCE_KERNEL = "matmul-256-1"
_TIMEOUT_SECS = 30.0
_PROCESSES = 4
#: Of one array of the copy: with its partner beyond the last cache, within these bounds.
_LEAST_ARRAY_BYTES = 64 << 20
_MOST_ARRAY_BYTES = 272 << 20
_MEMORY_SHARE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """What the device can do at most, by measurement; a GPU is measured as a whole."""

    fma_gflops_one_core: float | None
    fma_gflops_all_cores: float
    #: Bytes read and written.
    copy_gb_per_sec_one_core: float | None
    copy_gb_per_sec_all_cores: float
    #: Of each of the copy's two arrays, and of the last cache as the kernel, or the GPU, tells it.
    copy_array_bytes: int
    last_cache_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """How the reference kernel's times differ; relative numbers, 0.1 is a tenth."""

    #: The fastest process's median: what the device's history keeps.
    reference_secs: float
    #: Over pairs of processes: by how much the slower one's median is above the faster one's.
    between_processes_p50: float
    between_processes_p90: float
    #: Over the repeats of one process: (p90 - p10) / median, the median over the processes.
    within_process: float
    processes: int

    @classmethod
    def of(cls, processes: Sequence[Sequence[float]]) -> Self:
        """From the repeats of each process; at least two processes of at least two repeats."""
        medians = [statistics.median(run_secs) for run_secs in processes]
        gaps = sorted(max(pair) / min(pair) - 1.0 for pair in combinations(medians, 2))
        return cls(
            reference_secs=min(medians),
            between_processes_p50=statistics.median(gaps),
            between_processes_p90=_quantile(gaps, 0.9),
            within_process=statistics.median(_spread(run_secs) for run_secs in processes),
            processes=len(processes),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfTest:
    roofline: Roofline
    noise: Noise
    #: Seconds that the test itself took.
    took_secs: float

    def as_json(self) -> dict[str, Any]:
        """One level, as it stands in a worker's facts."""
        return {**asdict(self.roofline), **asdict(self.noise), "took_secs": round(self.took_secs, 3)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShippedKernels:
    """How a library of self-test kernels was built."""

    sha256: str
    #: float32 numbers of a vector register, floats of an array of the copy, tasks of what takes all cores.
    lanes: int
    elements: int
    cores: int

    @classmethod
    def from_json(cls, obj: Mapping[str, Any]) -> Self:
        """Raises KeyError, TypeError or ValueError."""
        numbers = {name: int(obj[name]) for name in ("lanes", "elements", "cores")}
        return cls(sha256=str(obj["sha256"]), **numbers)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceTester:
    """Tests one device; every measurement in a fresh child. Raises SandboxError where a child is ended.

    DeviceUnwanted where it is ended while another process times on the device.
    """

    server: ForkServer
    device: Device
    #: Canonical dict.
    target: Mapping[str, Any]
    #: Ends a test's child as soon as a chunk is there.
    turn: Turn
    #: Where nothing can be built here: how the kernels were built, and their library. Raises KernelsMissing.
    shipped: Callable[[], tuple[ShippedKernels, bytes]] | None = None

    def run(self) -> SelfTest:
        began = time.monotonic()
        if self.shipped is not None:
            # An API that is away is waited for here, not with the device in hand.
            self.shipped()
        with self.device.exclusive(given_up=self.turn.test_unwanted):
            roofline = self._roofline()
            noise = self._noise()
        return SelfTest(roofline=roofline, noise=noise, took_secs=time.monotonic() - began)

    def reference_secs(self) -> float:
        """A further run of the reference kernel alone."""
        with self.device.exclusive(given_up=self.turn.test_unwanted):
            return self._noise().reference_secs

    def _roofline(self) -> Roofline:
        last_cache_bytes = cache_bytes() if self.device.gpu is None else None
        if self.shipped is None:
            array_bytes = copy_array_bytes(last_cache_bytes, self.device.memory_bytes)
        else:
            array_bytes = 4 * self.shipped()[0].elements
        answer = self._ask("roofline", {"array_bytes": array_bytes}, array_bytes=array_bytes)
        told = {name: round(float(answer[name]), 3) for name in answer if name.startswith(("fma_", "copy_"))}
        return Roofline(
            fma_gflops_one_core=told.get("fma_gflops_one_core"),
            fma_gflops_all_cores=told["fma_gflops_all_cores"],
            copy_gb_per_sec_one_core=told.get("copy_gb_per_sec_one_core"),
            copy_gb_per_sec_all_cores=told["copy_gb_per_sec_all_cores"],
            copy_array_bytes=array_bytes,
            last_cache_bytes=answer.get("last_cache_bytes", last_cache_bytes),
        )

    def _noise(self) -> Noise:
        return Noise.of([self._ask("reference", {})["run_secs"] for _ in range(_PROCESSES)])

    def _ask(self, entry: str, order: Mapping[str, Any], *, array_bytes: int = 0) -> dict[str, Any]:
        limits = Limits(
            address_space_bytes=(4 << 30) + 2 * array_bytes, cpus=self.device.cpus, cpu_secs=_TIMEOUT_SECS
        )
        entry_name = f"{entries(self.target)}:{entry}"
        full: dict[str, Any] = {"target": dict(self.target), "cpus": list(self.device.cpus), **order}
        blobs = []
        if self.shipped is not None:
            kernels, library = self.shipped()
            full["kernels"] = asdict(kernels)
            blobs = [library]
        with self.server.spawn(entry_name, limits=self.device.limits(limits)) as child, self.turn.test(child):
            child.send(full, *blobs)
            answer, _ = child.recv(_TIMEOUT_SECS)
        if "error" in answer:
            raise DeviceError(f"the self-test's {entry} failed: {answer['error']}")
        return answer


def entries(target: Mapping[str, Any]) -> str:
    """The module of the children's entries, for devices of the target's kind."""
    return "workers.selftest_gpu_child" if target["kind"] == "cuda" else "workers.selftest_child"


def copy_array_bytes(last_cache_bytes: int | None, memory_bytes: int) -> int:
    """Of each of two arrays: beyond the last cache together, as far as bounds and memory let them."""
    wanted = max(last_cache_bytes or 0, _LEAST_ARRAY_BYTES)
    most = max(_LEAST_ARRAY_BYTES, min(_MOST_ARRAY_BYTES, memory_bytes // _MEMORY_SHARE))
    return min(wanted, most)


def cache_bytes() -> int | None:
    """Of the last cache of this host's first CPU, as Linux tells it; None where it does not."""
    sizes = Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    found = []
    for file in sizes:
        text = file.read_text().strip()
        if text[:-1].isdigit() and text[-1] in units:
            found.append(int(text[:-1]) * units[text[-1]])
    return max(found, default=None)


def _spread(run_secs: Sequence[float]) -> float:
    ordered = sorted(run_secs)
    return (_quantile(ordered, 0.9) - _quantile(ordered, 0.1)) / statistics.median(ordered)


def _quantile(ordered: Sequence[float], part: float) -> float:
    """By linear interpolation between neighbours."""
    place = part * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])
