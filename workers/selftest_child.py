"""The entries of the children in which a device tests itself: its roofline, and its reference kernel.

`roofline`: order {"target", "cpus", "array_bytes"}; out {"fma_gflops_one_core", "fma_gflops_all_cores",
"copy_gb_per_sec_one_core", "copy_gb_per_sec_all_cores"}. `reference`: order {"target", "cpus"}; out
{"run_secs"}, one number for each repeat, in one process that is as fresh as a candidate's. Where TVM comes
without its compiler both take the kernels as a blob, and "kernels" in the order says how they were built: by
`build`, in a child of another host: order {"target", "cores", "array_bytes", "linker"}; out {"lanes",
"elements", "cores"} and the library.
"""

import os
from pathlib import Path
from typing import Any

import numpy as np

from sandbox.channel import Channel
from tuner.tvm_light import load_tvm
from workers.program import link_library, load_library
from workers.selftest_kernels import (
    REFERENCE_FUNCTION,
    build_all,
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


def build(channel: Channel) -> None:
    order, _ = channel.recv()
    cores = int(order["cores"])
    lanes = float_lanes(order["target"])
    elements = _elements(order["array_bytes"], lanes=lanes, cores=cores)
    module = build_all(order["target"], elements=elements, cores=cores)
    library = link_library(module, linker=order["linker"], directory=Path.cwd())
    channel.send({"lanes": lanes, "elements": elements, "cores": cores}, library.read_bytes())


def roofline(channel: Channel) -> None:
    order, blobs = channel.recv()
    cpus: list[int] = order["cpus"]
    if blobs:
        made = order["kernels"]
        module, lanes = load_library(blobs[0], directory=Path.cwd()).module, int(made["lanes"])
        elements, cores = int(made["elements"]), int(made["cores"])
    else:
        lanes, cores = float_lanes(order["target"]), len(cpus)
        elements = _elements(order["array_bytes"], lanes=lanes, cores=cores)
        module = build_roofline(order["target"], elements=elements, cores=cores)
    source, sink = _empty((elements,)), _empty((elements,))
    # First touched by all cores; what is copied does not matter, as long as each page is a page of its own.
    take_cores(cpus)
    module["copy_all"](sink, source)
    module["copy_all"](source, sink)
    answer = {
        "fma_gflops_all_cores": _fma_gflops(module, "fma_all", tasks=cores, lanes=lanes),
        "copy_gb_per_sec_all_cores": _copy_gb_per_sec(module, "copy_all", source, sink),
    }
    os.sched_setaffinity(0, cpus[-1:])
    answer["fma_gflops_one_core"] = _fma_gflops(module, "fma_one", tasks=1, lanes=lanes)
    answer["copy_gb_per_sec_one_core"] = _copy_gb_per_sec(module, "copy_one", source, sink)
    channel.send(answer)


def reference(channel: Channel) -> None:
    order, blobs = channel.recv()
    if blobs:
        module = load_library(blobs[0], directory=Path.cwd()).module
    else:
        module = build_reference(order["target"])
    take_cores(order["cpus"])
    tensors = [_filled(reference_shape(), 1.0) for _ in range(3)]
    module[REFERENCE_FUNCTION](*tensors)
    timer = module.time_evaluator(
        REFERENCE_FUNCTION, load_tvm().cpu(), number=_REFERENCE_CALLS, repeat=_REFERENCE_REPEATS
    )
    channel.send({"run_secs": [float(secs) for secs in timer(*tensors).results]})


def _elements(array_bytes: int, *, lanes: int, cores: int) -> int:
    """Of one array of the copy: floats that divide by lanes and cores."""
    grain = lanes * cores
    return max(1, int(array_bytes) // 4 // grain) * grain


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
