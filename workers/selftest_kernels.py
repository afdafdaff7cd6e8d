# ruff: noqa: N803, N812 - TVMScript has its own names
"""Inside a child: the kernels with which a device tests itself, compiled for the worker's own target.

A register-blocked chain of multiply-adds (its peak), a copy of arrays beyond the last cache (its bandwidth),
and a small matmul that is always the same (its reference kernel). They are built, not timed, here.
"""

from typing import Any

from tuner.space.vectors import vector_unit
from tuner.target import make_target
from tuner.tvm_light import load_tvm

#: Independent accumulators: enough to hide a latency of four cycles on two FMA units, and with the two
#: operands few enough for sixteen vector registers.
_ACCUMULATORS = 12
_STEPS = 1 << 19
#: Whoever changes the reference kernel renames it in workers/selftest.py.
_REFERENCE_EXTENT = 256
_REFERENCE_TILE = (8, 32)
REFERENCE_FUNCTION = "main"


def float_lanes(target: dict[str, Any]) -> int:
    """float32 numbers of one vector register of the target."""
    load_tvm()
    return vector_unit(make_target(target), "float32").lanes


def fma_flops(tasks: int, lanes: int) -> float:
    """Floating-point operations of one call of `build_roofline`'s fma."""
    return 2.0 * tasks * _ACCUMULATORS * lanes * _STEPS


def fma_width(lanes: int) -> int:
    """Floats of the accumulators of one task."""
    return _ACCUMULATORS * lanes


def build_roofline(target: dict[str, Any], *, elements: int, cores: int) -> Any:
    """TVM's runtime module with fma_one, fma_all, copy_one, copy_all; `elements` divides by lanes × cores."""
    tvm = load_tvm()
    functions = _roofline(target, elements=elements, cores=cores)
    return tvm.tirx.build(tvm.IRModule(functions), make_target(target), "default")


def build_reference(target: dict[str, Any]) -> Any:
    """TVM's runtime module with `main`, a matmul that takes all of the target's cores."""
    return load_tvm().tirx.build(_reference(), make_target(target), "default")


def build_all(target: dict[str, Any], *, elements: int, cores: int) -> Any:
    """Both in one module: what a host that cannot build tests itself with."""
    tvm = load_tvm()
    functions = _roofline(target, elements=elements, cores=cores)
    functions[REFERENCE_FUNCTION] = _reference()[REFERENCE_FUNCTION]
    return tvm.tirx.build(tvm.IRModule(functions), make_target(target), "default")


def _roofline(target: dict[str, Any], *, elements: int, cores: int) -> dict[str, Any]:
    lanes = float_lanes(target)
    functions = {}
    for name, tasks in (("one", 1), ("all", cores)):
        functions[f"fma_{name}"] = _named(_fma(tasks, lanes), f"fma_{name}")
        functions[f"copy_{name}"] = _named(_copy(elements, tasks), f"copy_{name}")
    return functions


def _reference() -> Any:
    tvm = load_tvm()
    from tvm import te
    from tvm.s_tir import Schedule

    extent = _REFERENCE_EXTENT
    a, b = te.placeholder((extent, extent), name="A"), te.placeholder((extent, extent), name="B")
    k = te.reduce_axis((0, extent), name="k")
    c = te.compute((extent, extent), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    function = _named(te.create_prim_func([a, b, c]), REFERENCE_FUNCTION)
    schedule = Schedule(tvm.IRModule({REFERENCE_FUNCTION: function}))
    block = schedule.get_sblock("C", func_name=REFERENCE_FUNCTION)
    i, j, k = schedule.get_loops(block)
    rows, row = schedule.split(i, [None, _REFERENCE_TILE[0]])
    columns, column = schedule.split(j, [None, _REFERENCE_TILE[1]])
    schedule.reorder(rows, columns, k, row, column)
    schedule.parallel(rows)
    schedule.unroll(row)
    schedule.vectorize(column)
    schedule.decompose_reduction(block, k)
    return schedule.mod


def reference_shape() -> tuple[int, int]:
    """Of each of the reference kernel's three float32 buffers."""
    return (_REFERENCE_EXTENT, _REFERENCE_EXTENT)


def _named(function: Any, name: str) -> Any:
    return function.with_attr("global_symbol", name).with_attr("tirx.noalias", True)


def _fma(tasks: int, lanes: int) -> Any:
    load_tvm()
    from tvm.script import tirx as T

    width = _ACCUMULATORS * lanes

    @T.prim_func(s_tir=True)
    def fma(
        A: T.Buffer((tasks, width), "float32"),  # type: ignore[valid-type]  # TVMScript
        B: T.Buffer((2 * lanes,), "float32"),  # type: ignore[valid-type]  # TVMScript
        C: T.Buffer((tasks, width), "float32"),  # type: ignore[valid-type]  # TVMScript
    ) -> None:
        for t in T.parallel(tasks):
            held = T.alloc_buffer((width,), "float32", scope="local")
            for u in T.unroll(_ACCUMULATORS):
                for v in T.vectorized(lanes):
                    held[u * lanes + v] = A[t, u * lanes + v]
            for _ in range(_STEPS):
                for u in T.unroll(_ACCUMULATORS):
                    for v in T.vectorized(lanes):
                        held[u * lanes + v] = held[u * lanes + v] * B[v] + B[lanes + v]
            for u in T.unroll(_ACCUMULATORS):
                for v in T.vectorized(lanes):
                    C[t, u * lanes + v] = held[u * lanes + v]

    return fma


def _copy(elements: int, tasks: int) -> Any:
    load_tvm()
    from tvm.script import tirx as T

    share = elements // tasks

    @T.prim_func(s_tir=True)
    def copy(
        A: T.Buffer((elements,), "float32"),  # type: ignore[valid-type]  # TVMScript
        B: T.Buffer((elements,), "float32"),  # type: ignore[valid-type]  # TVMScript
    ) -> None:
        for t in T.parallel(tasks):
            for i in range(share):
                B[t * share + i] = A[t * share + i]

    return copy
