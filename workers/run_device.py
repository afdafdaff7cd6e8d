"""Inside a child: the device that a kernel runs on. What differs between CPUs and a GPU stands here alone.

It takes the device, waits for it and cools its caches; what is timed, and how often, is workers/timing.py's.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from sandbox.seccomp import forbid_processes
from tuner.target import make_target
from tuner.tvm_light import has_compiler, load_tvm
from workers.cache_flush import flusher
from workers.cuda_code import load_device_api
from workers.timing import take_cores

#: Copied on the device before a timed call, in multiples of its last cache; and where that is not known.
_FLUSH_RATIO = 2
_FLUSH_BYTES = 256 << 20
_FLUSH_NAME = "tilefarm.flush"


class RunDevice(Protocol):
    """Of one child."""

    #: A kernel may be loaded, and its arguments made, before `take`: nothing on the device is used by that.
    ready_early: bool
    #: Times of the evaluator stand, however long a call takes: Python's clock would see the launch.
    by_evaluator: bool

    def take(self, cpus: Sequence[int]) -> None:
        """From now on this process may use the device, driven from `cpus`."""
        ...

    @property
    def tvm(self) -> Any:
        """TVM's device."""
        ...

    def wait(self) -> None:
        """Until what was started on it has ended; raises what it failed of."""
        ...

    def flusher(self, tensors: Sequence[Any], /) -> Callable[[], None]:
        """A function that leaves none of the tensors' bytes in a cache."""
        ...


def run_device(target: Mapping[str, Any]) -> RunDevice:
    """Of a canonical target."""
    return GpuDevice() if target["kind"] == "cuda" else CpuDevice(target)


class CpuDevice:
    ready_early = True
    by_evaluator = False

    def __init__(self, target: Mapping[str, Any]) -> None:
        self._target = target
        self._cpus: Sequence[int] = ()

    def take(self, cpus: Sequence[int]) -> None:
        self._cpus = cpus
        take_cores(cpus)

    @property
    def tvm(self) -> Any:
        return load_tvm().cpu()

    def wait(self) -> None:
        """A call has ended when it returns."""

    def flusher(self, tensors: Sequence[Any], /) -> Callable[[], None]:
        own = make_target(self._target) if has_compiler() else None
        return flusher(tensors, target=own, cpus=self._cpus)


class GpuDevice:
    """The first GPU that this process sees; it has a context there from `take` on, and none before.

    The context's making opens sockets and threads of NVIDIA's. So the wall around processes is raised after
    it, and kernels are loaded after that.
    """

    ready_early = False
    by_evaluator = True

    def take(self, cpus: Sequence[int]) -> None:
        os.sched_setaffinity(0, cpus)
        load_device_api()
        self.tvm.sync()
        forbid_processes()

    @property
    def tvm(self) -> Any:
        return load_tvm().cuda(0)

    def wait(self) -> None:
        self.tvm.sync()

    def flusher(self, _tensors: Sequence[Any], /) -> Callable[[], None]:
        tvm = load_tvm()
        size_bytes = _FLUSH_RATIO * int(self.tvm.l2_cache_size_bytes or 0) or _FLUSH_BYTES
        source, sink = (tvm.runtime.empty((size_bytes,), "uint8", self.tvm) for _ in range(2))

        def run() -> None:
            source.copyto(sink)

        return run


def flushed_evaluator(
    module: Any, entry: str, device: RunDevice, tensors: Sequence[Any]
) -> Callable[[int], float]:
    """The mean of so many calls by TVM's evaluator, with the caches flushed before each.

    The evaluator itself calls the kernel once before it times, so that the flush must be its own.
    """
    import tvm_ffi

    flush = device.flusher(tensors)
    tvm_ffi.register_global_func(_FLUSH_NAME, lambda *_arguments: flush(), override=True)

    def evaluate(number: int) -> float:
        timer = module.time_evaluator(entry, device.tvm, number=1, repeat=number, f_preproc=_FLUSH_NAME)
        return float(timer(*tensors).mean)

    return evaluate
