# ruff: noqa: N812 - TVMScript has its own names
"""Inside a child: takes a kernel's buffers out of every cache before a timed call.

On x86 `clflush` does it line by line: the line leaves all levels of the caches of all cores, wherever a
thread of the kernel left it. Elsewhere each core that times writes through more bytes than its caches hold.
What the kernel keeps in buffers of its own is not flushed.
"""

import os
import platform
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tuner.tvm_light import load_tvm

_LINE_BYTES = 64
_SWEEP_BYTES = 256 << 20


def flusher(
    tensors: Sequence[Any], *, target: Any, cpus: Sequence[int], x86: bool | None = None
) -> Callable[[], None]:
    """A function that flushes `tensors` (TVM's, on the CPU) out of the caches of `cpus`.

    `target` is None where nothing can be compiled; `x86` is the host's unless given.
    """
    by_lines = platform.machine() == "x86_64" if x86 is None else x86
    if by_lines and target is not None:
        return _by_lines(tensors, target)
    return _by_sweep(cpus)


def _by_lines(tensors: Sequence[Any], target: Any) -> Callable[[], None]:
    tvm = load_tvm()
    module = tvm.tirx.build(tvm.IRModule({"flush": _flush_lines()}), target, "default")
    flush = module["flush"]
    places = []
    for tensor in tensors:
        first = tensor.data_ptr() // _LINE_BYTES * _LINE_BYTES
        end = tensor.data_ptr() + _size_bytes(tensor)
        places.append((first, -(-(end - first) // _LINE_BYTES)))

    def run() -> None:
        for first, lines in places:
            flush(first, lines)

    return run


def _by_sweep(cpus: Sequence[int]) -> Callable[[], None]:
    swept = np.zeros(_SWEEP_BYTES, dtype=np.uint8)

    def run() -> None:
        own = os.sched_getaffinity(0)
        for cpu in cpus:
            os.sched_setaffinity(0, {cpu})
            swept.__iadd__(1)
        os.sched_setaffinity(0, own)

    return run


def _size_bytes(tensor: Any) -> int:
    elements = int(np.prod([int(extent) for extent in tensor.shape], dtype=np.int64))
    dtype = tensor.dtype
    return -(-elements * int(dtype.bits) * int(dtype.lanes) // 8)


def _flush_lines() -> Any:
    from tvm.script import tirx as T

    @T.prim_func(s_tir=True)
    def flush(first: T.int64, lines: T.int64) -> None:
        T.func_attr({"global_symbol": "flush"})
        for line in range(lines):
            T.evaluate(
                T.call_llvm_intrin(
                    "void", "llvm.x86.sse2.clflush", T.reinterpret("handle", first + line * T.int64(64))
                )
            )
        T.evaluate(T.call_llvm_intrin("void", "llvm.x86.sse2.mfence"))

    return flush
