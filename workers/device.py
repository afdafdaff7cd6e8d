"""The device that is timed on: what it is, and the exclusive right to it.

The worker process never loads TVM: the target is asked of a sandboxed child (workers/detect_child.py).
"""

import os
import platform
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandbox.errors import SandboxError
from sandbox.fork_server import ForkServer
from sandbox.limits import Limits
from workers.core_lock import CoreLock
from workers.errors import DeviceError

_DETECT_TIMEOUT_SECS = 60.0
_CPUS_ONLY = "this release of tilefarm builds for CPUs and times on them, and has no GPU workers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A set of CPUs that is timed on as one."""

    #: Unique on its host, such as cpu-0-1.
    name: str
    #: Model and cores: numbers are compared only within one class.
    device_class: str
    cpus: tuple[int, ...]
    memory_bytes: int
    facts: dict[str, Any]
    #: One for each core, in the order in which they are taken.
    locks: tuple[CoreLock, ...]

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
    """The local CPU as TVM sees it, and the target that it is to serve."""

    #: Canonical dict.
    target: dict[str, Any]
    tvm_version: str
    #: Of this CPU; None where TVM comes without its compiler.
    own_target: dict[str, Any] | None = None
    #: LLVM's names of the CPU's vector features, and the machine's: what the API checks the target against.
    features: tuple[str, ...] | None = None
    machine: str = ""


def find_device(kind: str, *, num_cores: int | None, lock_dir: Path) -> Device:
    """The local device of this kind; raises DeviceError where there is none, or none that can be served."""
    if kind == "cuda":
        raise DeviceError(f"TILEFARM_WORKER_DEVICE={kind}: {_CPUS_ONLY}, whatever GPU this host has")
    if kind != "cpu":
        raise DeviceError(f"unknown kind of device {kind!r}; known are cpu and cuda")
    allowed = sorted(os.sched_getaffinity(0))
    if num_cores is not None and not 1 <= num_cores <= len(allowed):
        raise DeviceError(f"{num_cores} cores were asked for; this process may use {len(allowed)}")
    cpus = tuple(allowed[:num_cores])
    name = "cpu-" + "-".join(str(cpu) for cpu in cpus)
    model = cpu_model()
    locks = tuple(CoreLock(lock_dir / f"cpu-{cpu}.lock") for cpu in cpus)
    for lock in locks:
        lock.check()
    return Device(
        name=name,
        device_class=f"{model} {len(cpus)}c",
        cpus=cpus,
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        facts={
            "cpu_model": model,
            "kernel": platform.release(),
            "machine": platform.machine(),
            "python": platform.python_version(),
            "governor": _governor(cpus[0]),
            "host_cores": os.cpu_count(),
            # False: whatever else runs on the host may make a kernel look slow.
            "real_time": may_run_in_real_time(),
        },
        locks=locks,
    )


def detect_target(
    server: ForkServer, *, num_cores: int, target: Mapping[str, Any] | None = None, times: bool = True
) -> DetectedTarget:
    """Ask a child, because TVM is not loaded here.

    `target` is served instead of the CPU's own; one that `times` must be one that the CPU can run. Raises
    DeviceError where the child cannot tell, or the target is mislabelled, or none of a CPU.
    """
    try:
        with server.spawn("workers.detect_child:run", limits=Limits()) as child:
            child.send(
                {
                    "num_cores": num_cores,
                    "target": None if target is None else dict(target),
                    "times": times,
                }
            )
            answer, _ = child.recv(_DETECT_TIMEOUT_SECS)
    except SandboxError as error:
        raise DeviceError(f"the CPU's target could not be detected: {error}") from error
    if "refused" in answer:
        raise DeviceError(f"this worker cannot serve the target: {answer['refused']}")
    if answer["target"]["kind"] != "llvm":
        raise DeviceError(
            f"this worker cannot serve a target of kind {answer['target']['kind']}: {_CPUS_ONLY}"
        )
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
