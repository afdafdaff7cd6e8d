"""The device that is timed on: what it is, and the exclusive right to it.

The worker process never loads TVM: the target is asked of a sandboxed child (workers/detect_child.py).
"""

import os
import platform
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sandbox.errors import SandboxError
from sandbox.fork_server import ForkServer
from sandbox.limits import Limits
from workers.core_lock import CoreLock
from workers.errors import DeviceError
from workers.gpu import Gpu, device_files, find_gpu

_DETECT_TIMEOUT_SECS = 60.0
#: Of a target's kind and of a device's: what is served, and on what.
_KIND_OF_TARGET = {"cpu": "llvm", "cuda": "cuda"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A set of CPUs that is timed on as one, or a GPU and the CPUs that build for it."""

    #: Unique on its host, such as cpu-0-1.
    name: str
    #: Model, and cores of CPUs: numbers are compared only within one class.
    device_class: str
    cpus: tuple[int, ...]
    #: Of the host; of a GPU its own.
    memory_bytes: int
    facts: dict[str, Any]
    #: One for each core, in the order in which they are taken; of a GPU the only one.
    locks: tuple[CoreLock, ...]
    gpu: Gpu | None = None
    #: What a child opens for writing when it uses the GPU.
    files: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        return "cpu" if self.gpu is None else "cuda"

    def limits(self, limits: Limits) -> Limits:
        """Of a child that uses the device. CUDA maps address space without end, so no bound on it stands.

        And its context opens sockets: the wall around processes is the child's to raise, before it loads a
        candidate (workers/run_device.py).
        """
        if self.gpu is None:
            return limits
        return replace(
            limits,
            address_space_bytes=None,
            open_files=None,
            may_start_processes=True,
            device_files=self.files,
        )

    @contextmanager
    def exclusive(self, *, given_up: Callable[[], bool]) -> Iterator[None]:
        """Nobody else on this host times on the device meanwhile; waits for its turn.

        A device of other cores does not wait; one that shares a core does. Containers of one host share the
        locks' directory. Raises DeviceUnwanted where `given_up` says so while it waits.
        """
        with ExitStack() as held:
            for lock in self.locks:
                held.enter_context(lock.held(given_up=given_up))
            yield


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectedTarget:
    """The local CPU as TVM sees it, and the target that is to be served, of the CPU or of a GPU."""

    #: Canonical dict.
    target: dict[str, Any]
    tvm_version: str
    #: Of this CPU; None where TVM comes without its compiler.
    own_target: dict[str, Any] | None = None
    #: LLVM's names of the CPU's vector features, a GPU's arch, and the machine's: what the API checks the
    #: target against.
    features: tuple[str, ...] | None = None
    machine: str = ""


def find_device(kind: str, *, num_cores: int | None, lock_dir: Path, gpu: int = 0) -> Device:
    """The local device of this kind; raises DeviceError where there is none, or none that can be served.

    `gpu` is the GPU's number as NVIDIA's driver counts, for the kind cuda.
    """
    if kind not in _KIND_OF_TARGET:
        raise DeviceError(f"unknown kind of device {kind!r}; known are {', '.join(_KIND_OF_TARGET)}")
    allowed = sorted(os.sched_getaffinity(0))
    if num_cores is not None and not 1 <= num_cores <= len(allowed):
        raise DeviceError(f"{num_cores} cores were asked for; this process may use {len(allowed)}")
    cpus = tuple(allowed[:num_cores])
    device = _cpus(cpus, lock_dir) if kind == "cpu" else _gpu(find_gpu(gpu), cpus, lock_dir)
    for lock in device.locks:
        lock.check()
    return device


def _cpus(cpus: tuple[int, ...], lock_dir: Path) -> Device:
    facts = _host_facts(cpus)
    return Device(
        name="cpu-" + "-".join(str(cpu) for cpu in cpus),
        device_class=f"{facts['cpu_model']} {len(cpus)}c",
        cpus=cpus,
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        facts=facts,
        locks=tuple(CoreLock(lock_dir / f"cpu-{cpu}.lock") for cpu in cpus),
    )


def _gpu(gpu: Gpu, cpus: tuple[int, ...], lock_dir: Path) -> Device:
    told = {"gpu_model": gpu.name, "gpu_uuid": gpu.uuid, "driver_version": gpu.driver_version}
    return Device(
        name=gpu.uuid[:12].lower(),
        device_class=gpu.name,
        cpus=cpus,
        memory_bytes=gpu.memory_bytes,
        facts={**_host_facts(cpus), **told},
        locks=(CoreLock(lock_dir / f"{gpu.uuid}.lock"),),
        gpu=gpu,
        files=device_files(),
    )


def _host_facts(cpus: tuple[int, ...]) -> dict[str, Any]:
    return {
        "cpu_model": cpu_model(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "governor": _governor(cpus[0]),
        "host_cores": os.cpu_count(),
        # False: whatever else runs on the host may make a kernel look slow.
        "real_time": may_run_in_real_time(),
    }


def detect_target(
    server: ForkServer,
    *,
    num_cores: int,
    target: Mapping[str, Any] | None = None,
    times: bool = True,
    device: Device | None = None,
) -> DetectedTarget:
    """Ask a child, because TVM is not loaded here.

    `target` is served instead of the device's own; one that `times` must be one that the device can run:
    the GPU of `device`, else the CPU. Raises DeviceError where the child cannot tell, or the target is
    mislabelled, or of another kind than the device.
    """
    gpu = None if device is None or not times else device.gpu
    limits = Limits() if device is None else device.limits(Limits())
    try:
        with server.spawn("workers.detect_child:run", limits=limits) as child:
            child.send(
                {
                    "num_cores": num_cores,
                    "target": None if target is None else dict(target),
                    "times": times,
                    "gpu_model": None if gpu is None else gpu.name,
                }
            )
            answer, _ = child.recv(_DETECT_TIMEOUT_SECS)
    except SandboxError as error:
        raise DeviceError(f"the target could not be detected: {error}") from error
    if "refused" in answer:
        raise DeviceError(f"this worker cannot serve the target: {answer['refused']}")
    kind, device_kind = answer["target"]["kind"], "cpu" if gpu is None else "cuda"
    if times and kind != _KIND_OF_TARGET[device_kind]:
        detail = f"this worker times on a device of kind {device_kind} (TILEFARM_WORKER_DEVICE)"
        raise DeviceError(f"{detail}, and cannot serve a target of kind {kind}")
    features = answer["features"]
    return DetectedTarget(
        target=answer["target"],
        tvm_version=answer["tvm_version"],
        own_target=answer["own_target"],
        features=None if features is None else tuple(features),
        machine=answer["machine"],
    )


def may_run_in_real_time() -> bool:
    """Whether this user may have a real-time thread: by CAP_SYS_NICE, or by an rtprio limit of 1 or more."""
    policy, param = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except PermissionError:
        return False
    os.sched_setscheduler(0, policy, param)
    return True


def host_name() -> str:
    return socket.gethostname()


def cpu_model() -> str:
    """As the kernel names it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def _governor(cpu: int) -> str | None:
    try:
        return Path(f"/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor").read_text().strip()
    except OSError:
        return None
