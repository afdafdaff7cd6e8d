"""The entries of the children in which a GPU tests itself.

Orders and answers are as in workers/selftest_child.py, but `roofline` answers for the device as a whole, and
with its last cache: {"fma_gflops_all_cores", "copy_gb_per_sec_all_cores", "last_cache_bytes"}.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sandbox.channel import Channel
from tuner.tvm_light import load_tvm
from workers.program import link_library, loader
from workers.run_device import RunDevice, run_device
from workers.selftest_gpu import (
    COPY_FUNCTION,
    COPY_GRAIN,
    FMA_ELEMENTS,
    FMA_FLOPS,
    FMA_FUNCTION,
    REFERENCE_FUNCTION,
    build_gpu_kernels,
    reference_shape,
)

_FMA_REPEATS = 5
_COPY_REPEATS = 5
_REFERENCE_REPEATS = 15
_REFERENCE_CALLS = 10
#: No copy is timed in the reference's process; its kernel is built with it all the same.
_SMALL_COPY_BYTES = 4 * COPY_GRAIN


def build(channel: Channel) -> None:
    order, _ = channel.recv()
    elements = _elements(order["array_bytes"])
    module = build_gpu_kernels(order["target"], elements=elements)
    library = link_library(module, linker=order["linker"], directory=Path.cwd())
    channel.send({"lanes": 1, "elements": elements, "cores": 1}, library.read_bytes())


def roofline(channel: Channel) -> None:
    order, blobs = channel.recv()
    elements = int(order["kernels"]["elements"]) if blobs else _elements(order["array_bytes"])
    module, device = _module(order, blobs, elements=elements)
    factors, kept = _filled((2,), 0.5, device), _empty((FMA_ELEMENTS,), device)
    fma_secs = _secs(module, FMA_FUNCTION, (factors, kept), device, repeats=_FMA_REPEATS)
    arrays = (_filled((elements,), 1.0, device), _empty((elements,), device))
    copy_secs = _secs(module, COPY_FUNCTION, arrays, device, repeats=_COPY_REPEATS)
    channel.send(
        {
            "fma_gflops_all_cores": FMA_FLOPS / min(fma_secs) / 1e9,
            # Bytes read and bytes written, as STREAM counts a copy.
            "copy_gb_per_sec_all_cores": 2.0 * 4.0 * elements / min(copy_secs) / 1e9,
            "last_cache_bytes": device.tvm.l2_cache_size_bytes,
        }
    )


def reference(channel: Channel) -> None:
    order, blobs = channel.recv()
    module, device = _module(order, blobs, elements=_elements(_SMALL_COPY_BYTES))
    tensors = tuple(_filled(reference_shape(), 1.0, device) for _ in range(3))
    run_secs = _secs(
        module, REFERENCE_FUNCTION, tensors, device, calls=_REFERENCE_CALLS, repeats=_REFERENCE_REPEATS
    )
    channel.send({"run_secs": run_secs})


def _module(order: Mapping[str, Any], blobs: Sequence[bytes], *, elements: int) -> tuple[Any, RunDevice]:
    """The kernels, and the device, which is taken before any of them is there."""
    device = run_device(order["target"])
    load: Any = loader(blobs[0], directory=Path.cwd()) if blobs else None
    built = None if blobs else build_gpu_kernels(order["target"], elements=elements)
    device.take(order["cpus"])
    return (load().module if built is None else built), device


def _elements(array_bytes: int) -> int:
    return max(1, int(array_bytes) // 4 // COPY_GRAIN) * COPY_GRAIN


def _secs(
    module: Any, name: str, arguments: tuple[Any, ...], device: RunDevice, *, calls: int = 1, repeats: int
) -> list[float]:
    timer = module.time_evaluator(name, device.tvm, number=calls, repeat=repeats)
    return [float(secs) for secs in timer(*arguments).results]


def _empty(shape: tuple[int, ...], device: RunDevice) -> Any:
    return load_tvm().runtime.empty(shape, "float32", device.tvm)


def _filled(shape: tuple[int, ...], value: float, device: RunDevice) -> Any:
    tensor = _empty(shape, device)
    tensor.copyfrom(np.full(shape, value, dtype=np.float32))
    return tensor
