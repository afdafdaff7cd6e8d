"""The entries of the children in which a device tests itself: its roofline, and its reference kernel.

`roofline`: order {"target", "cpus", "array_bytes"}; out {"fma_gflops_one_core", "fma_gflops_all_cores",
"copy_gb_per_sec_one_core", "copy_gb_per_sec_all_cores"}. `reference`: order {"target", "cpus"}; out
{"run_secs"}, one number for each repeat, in one process that is as fresh as a candidate's.
"""

import os
from typing import Any

import numpy as np

from sandbox.channel import Channel
from tuner.tvm_light import load_tvm
from workers.selftest_kernels import (
    build_reference,
    build_roofline,
    float_lanes,
    fma_flops,
    fma_width,
    reference_shape,
)
from workers.timing import take_cores

_FMA_REPEATS = 5
_COPY_REPEATS = 2
_REFERENCE_REPEATS = 15
_REFERENCE_CALLS = 10


def roofline(channel: Channel) -> None:
    order, _ = channel.recv()
    cpus: list[int] = order["cpus"]
    lanes = float_lanes(order["target"])
    grain = lanes * len(cpus)
    elements = max(1, int(order["array_bytes"]) // 4 // grain) * grain
    module = build_roofline(order["target"], elements=elements, cores=len(cpus))
    source, sink = _empty((elements,)), _empty((elements,))
    # First touched by all cores; what is copied does not matter, as long as each page is a page of its own.
    take_cores(cpus)
    module["copy_all"](sink, source)
    module["copy_all"](source, sink)
    answer = {
        "fma_gflops_all_cores": _fma_gflops(module, "fma_all", tasks=len(cpus), lanes=lanes),
        "copy_gb_per_sec_all_cores": _copy_gb_per_sec(module, "copy_all", source, sink),
    }
    os.sched_setaffinity(0, cpus[-1:])
    answer["fma_gflops_one_core"] = _fma_gflops(module, "fma_one", tasks=1, lanes=lanes)
    answer["copy_gb_per_sec_one_core"] = _copy_gb_per_sec(module, "copy_one", source, sink)
    channel.send(answer)


def reference(channel: Channel) -> None:
    order, _ = channel.recv()
    module = build_reference(order["target"])
    take_cores(order["cpus"])
    tensors = [_filled(reference_shape(), 1.0) for _ in range(3)]
    module["main"](*tensors)
    timer = module.time_evaluator(
        "main", load_tvm().cpu(), number=_REFERENCE_CALLS, repeat=_REFERENCE_REPEATS
    )
    channel.send({"run_secs": [float(secs) for secs in timer(*tensors).results]})


def _fma_gflops(module: Any, name: str, *, tasks: int, lanes: int) -> float:
    shape = (tasks, fma_width(lanes))
    arguments = (_filled(shape, 1.0), _filled((2 * lanes,), 0.5), _filled(shape, 0.0))
    secs = _fastest_secs(module, name, arguments, repeats=_FMA_REPEATS)
    return fma_flops(tasks, lanes) / secs / 1e9


def _copy_gb_per_sec(module: Any, name: str, source: Any, sink: Any) -> float:
    """Bytes read and bytes written, as STREAM counts a copy."""
    secs = _fastest_secs(module, name, (source, sink), repeats=_COPY_REPEATS)
    return 2.0 * 4.0 * float(np.prod(source.shape)) / secs / 1e9


def _fastest_secs(module: Any, name: str, arguments: tuple[Any, ...], *, repeats: int) -> float:
    timer = module.time_evaluator(name, load_tvm().cpu(), number=1, repeat=repeats)
    return min(float(secs) for secs in timer(*arguments).results)


def _empty(shape: tuple[int, ...]) -> Any:
    return load_tvm().runtime.empty(shape, "float32")


def _filled(shape: tuple[int, ...], value: float) -> Any:
    tensor = _empty(shape)
    tensor.copyfrom(np.full(shape, value, dtype=np.float32))
    return tensor
