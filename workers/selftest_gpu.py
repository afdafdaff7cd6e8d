# ruff: noqa: N803, N812 - TVMScript has its own names
"""Inside a child: the kernels with which a GPU tests itself. They are built, not timed, here.

As on CPUs: chains of multiply-adds in registers (its peak), a copy of arrays beyond its last cache (its
bandwidth), and a small matmul that is always the same (its reference kernel). Their extents do not depend on
the GPU, so that a host without one builds them for any.
"""

from typing import Any

from tuner.target import make_target
from tuner.tvm_light import load_tvm

_THREADS = 256
_BLOCKS = 4096
#: Independent chains of one thread: a latency of four cycles is hidden, with registers left for all threads.
_CHAINS = 8
_STEPS = 2048
_LANES = 4
_REFERENCE_EXTENT = 512
#: Of a block and of a thread, rows and columns alike.
_REFERENCE_TILE, _THREAD_TILE = 32, 2
FMA_FUNCTION, COPY_FUNCTION, REFERENCE_FUNCTION = "fma", "copy", "main"
#: Floats of the multiply-adds' output; what one block copies divides the copy's.
FMA_ELEMENTS = _BLOCKS * _THREADS
COPY_GRAIN = _THREADS * _LANES
#: Floating-point operations of one call of the multiply-adds.
FMA_FLOPS = 2.0 * _BLOCKS * _THREADS * _CHAINS * _STEPS


def build_gpu_kernels(target: dict[str, Any], *, elements: int) -> Any:
    """TVM's runtime module with all three; the copy is of `elements` floats, which COPY_GRAIN divides."""
    tvm = load_tvm()
    functions = {FMA_FUNCTION: _fma(), COPY_FUNCTION: _copy(elements)}
    named = {
        name: function.with_attr("global_symbol", name).with_attr("tirx.noalias", True)
        for name, function in functions.items()
    }
    named[REFERENCE_FUNCTION] = _reference()
    return tvm.tirx.build(tvm.IRModule(named), make_target(target), "default")


def reference_shape() -> tuple[int, int]:
    """Of each of the reference kernel's three float32 buffers."""
    return (_REFERENCE_EXTENT, _REFERENCE_EXTENT)


def _fma() -> Any:
    load_tvm()
    from tvm.script import tirx as T

    @T.prim_func(s_tir=True)
    def fma(
        A: T.Buffer((2,), "float32"),  # type: ignore[valid-type]  # TVMScript
        B: T.Buffer((FMA_ELEMENTS,), "float32"),  # type: ignore[valid-type]  # TVMScript
    ) -> None:
        for block in T.thread_binding(_BLOCKS, thread="blockIdx.x"):
            for thread in T.thread_binding(_THREADS, thread="threadIdx.x"):
                held = T.alloc_buffer((_CHAINS,), "float32", scope="local")
                for u in T.unroll(_CHAINS):
                    held[u] = A[0] + T.cast(u, "float32")
                for _ in range(_STEPS):
                    for u in T.unroll(_CHAINS):
                        held[u] = held[u] * A[0] + A[1]
                for u in range(1, _CHAINS):
                    held[0] = held[0] + held[u]
                B[block * _THREADS + thread] = held[0]

    return fma


def _copy(elements: int) -> Any:
    load_tvm()
    from tvm.script import tirx as T

    blocks = elements // COPY_GRAIN

    @T.prim_func(s_tir=True)
    def copy(
        A: T.Buffer((elements,), "float32"),  # type: ignore[valid-type]  # TVMScript
        B: T.Buffer((elements,), "float32"),  # type: ignore[valid-type]  # TVMScript
    ) -> None:
        for block in T.thread_binding(blocks, thread="blockIdx.x"):
            for thread in T.thread_binding(_THREADS, thread="threadIdx.x"):
                for lane in T.vectorized(_LANES):
                    B[(block * _THREADS + thread) * _LANES + lane] = A[
                        (block * _THREADS + thread) * _LANES + lane
                    ]

    return copy


def _reference() -> Any:
    tvm = load_tvm()
    from tvm import te
    from tvm.s_tir import Schedule

    shape = reference_shape()
    a, b = te.placeholder(shape, name="A"), te.placeholder(shape, name="B")
    k = te.reduce_axis((0, shape[0]), name="k")
    c = te.compute(shape, lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    function = te.create_prim_func([a, b, c]).with_attr("global_symbol", REFERENCE_FUNCTION)
    schedule = Schedule(tvm.IRModule({REFERENCE_FUNCTION: function.with_attr("tirx.noalias", True)}))
    block = schedule.get_sblock("C")
    kept = schedule.cache_write(block, 0, "local")
    i, j, k = schedule.get_loops(block)
    rows = schedule.split(i, [None, _REFERENCE_TILE // _THREAD_TILE, _THREAD_TILE])
    columns = schedule.split(j, [None, _REFERENCE_TILE // _THREAD_TILE, _THREAD_TILE])
    schedule.reorder(rows[0], columns[0], rows[1], columns[1], k, rows[2], columns[2])
    threads = zip((rows[0], columns[0], rows[1], columns[1]), _BINDINGS, strict=True)
    for loop, binding in threads:
        schedule.bind(loop, binding)
    schedule.reverse_compute_at(kept, columns[1])
    for loop in (rows[2], columns[2]):
        schedule.unroll(loop)
    schedule.decompose_reduction(block, k)
    return schedule.mod[REFERENCE_FUNCTION]


_BINDINGS = ("blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x")
