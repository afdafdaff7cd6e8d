# ruff: noqa: N803, N812, E741 - TVMScript has its own names
"""The entry of a child that writes the modules and traces which the tests measure."""

import json
import re
from collections.abc import Callable
from typing import Any

from sandbox.channel import Channel
from tuner.target import detect_local_target, make_target
from tuner.tvm_light import load_tvm

tvm = load_tvm()
import tvm_ffi  # noqa: E402 - after the light loader
from tvm import te, topi  # noqa: E402 - after the light loader
from tvm.s_tir import Schedule  # noqa: E402 - after the light loader
from tvm.script import tirx as T  # noqa: E402 - after the light loader

from workers.program import compile_module, load_module, replay  # noqa: E402 - after the light loader


def run(channel: Channel) -> None:
    mm = matmul(128)
    channel.send(
        {
            "mm": save(mm),
            "mm_tiled": trace(mm, tiled),
            "mm_slow": trace(mm, slow),
            "mm_wrong": trace(mm, wrong),
            "mm_unrolled": trace(matmul(128), endless_unroll),
            "mm_big": save(matmul(1024)),
            "mm_big_tiled": trace(matmul(1024), tiled),
            "scale": save(workload([a := te.placeholder((64, 64), name="A"), topi.multiply(a, 2.0)])),
            "log": save(workload([a := te.placeholder((64, 64), name="A"), topi.log(a)])),
            "sqrt_wrong": trace(None, lambda _: None),
            "in_place": save(module_of(in_place)),
            "endless": save(module_of(endless)),
            "crash": save(module_of(crash)),
            "scalar": save(module_of(scalar)),
            "gather": save(module_of(gather)),
            "conv_int64": save(conv2d_int64()),
            "add_int64": save(add_int64()),
            "dense": save(dense()),
            "dense_traces": searched(dense(), count=4),
            "half": save(half("float16")),
            "bfloat": save(half("bfloat16")),
            "narrow": {dtype: narrow(dtype) for dtype in ("bfloat16", "float8_e4m3fn", "float8_e5m2")},
            "bools": save(bools()),
            "chase": save(module_of(chase)),
            "places": save(module_of(places)),
            "rights": save(module_of(rights)),
            "dense_compiled": [consumed_and_measured(dense(), text) for text in searched(dense(), count=4)],
            **{name: save(module_of(hostile)) for name, hostile in HOSTILE.items()},
        }
    )


def module_of(function: Any) -> Any:
    return tvm.IRModule({"main": function.with_attr("global_symbol", "main").with_attr("tirx.noalias", True)})


def narrow(dtype: str) -> dict[str, str]:
    """A long sum in few bits; a trace that makes another sum of it, and two that order it otherwise."""
    a, b = te.placeholder((16, 512), dtype, name="A"), te.placeholder((512, 16), dtype, name="B")
    k = te.reduce_axis((0, 512), name="k")
    mod = workload([a, b, te.compute((16, 16), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")])

    def cut(sch: Any) -> None:
        """Fractions become zeros; whole numbers, of which float8 is filled, lose their signs."""
        copied = sch.cache_read(sch.get_sblock("C", func_name="main"), 0, "global")
        sch.unsafe_set_dtype(copied, 0, "int8" if dtype == "bfloat16" else "bool")

    def kept_wide(sch: Any) -> None:
        sch.cache_write(sch.get_sblock("C", func_name="main"), 0, "global")

    def in_parts(sch: Any) -> None:
        *_, depth = sch.get_loops(sch.get_sblock("C", func_name="main"))
        sch.rfactor(sch.split(depth, [None, 8])[1], 0)

    return {
        "module": save(mod),
        "wrong": trace(mod, cut),
        "kept_wide": trace(mod, kept_wide),
        "in_parts": trace(mod, in_parts),
    }


def workload(tensors: list[Any], **options: Any) -> Any:
    return module_of(te.create_prim_func(tensors, **options))


def save(module: Any) -> str:
    return str(tvm.ir.save_json(module))


def trace(module: Any, schedule: Callable[[Any], None]) -> str:
    if module is None:
        return "[[],[]]"
    sch = Schedule(module, debug_mask="none")
    schedule(sch)
    return json.dumps(plain(sch.trace.as_json()))


def searched(module: Any, *, count: int) -> list[str]:
    """Traces that TVM's own rules and postprocs make."""
    from tvm.s_tir.meta_schedule import TuneContext
    from tvm.s_tir.meta_schedule.cost_model import RandomModel
    from tvm.s_tir.meta_schedule.database import MemoryDatabase

    context = TuneContext(
        mod=module,
        target=make_target(detect_local_target(num_cores=2)),
        space_generator="post-order-apply",
        search_strategy="replay-trace",
        task_name="main",
        num_threads=1,
        rand_state=1,
    )
    context.pre_tuning(
        max_trials=count,
        num_trials_per_iter=count,
        design_spaces=context.generate_design_space(),
        database=MemoryDatabase(),
        cost_model=RandomModel(),
    )
    candidates = context.generate_measure_candidates()
    return [json.dumps(plain(candidate.sch.trace.as_json())) for candidate in candidates]


def plain(value: Any) -> Any:
    if isinstance(value, str):
        return str(value)
    if hasattr(value, "value"):
        return value.value
    if value is None or isinstance(value, int | float):
        return value
    return [plain(item) for item in value]


def matmul(size: int) -> Any:
    a, b = te.placeholder((size, size), name="A"), te.placeholder((size, size), name="B")
    k = te.reduce_axis((0, size), name="k")
    return workload(
        [a, b, te.compute((size, size), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")]
    )


def tiled(sch: Any) -> None:
    block = sch.get_sblock("C", func_name="main")
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, [None, 8])
    j0, j1 = sch.split(j, [None, 32])
    sch.reorder(i0, j0, k, i1, j1)
    sch.vectorize(j1)
    sch.parallel(i0)
    sch.decompose_reduction(block, k)


def slow(sch: Any) -> None:
    """Strided on purpose: the reduction innermost, columns outermost."""
    i, j, k = sch.get_loops(sch.get_sblock("C", func_name="main"))
    sch.reorder(j, i, k)


def wrong(sch: Any) -> None:
    """The accumulation in integers, which changes what is computed."""
    block = sch.get_sblock("C", func_name="main")
    copied = sch.cache_read(block, 0, "global")
    sch.unsafe_set_dtype(copied, 0, "int8")


def endless_unroll(sch: Any) -> None:
    for loop in sch.get_loops(sch.get_sblock("C", func_name="main")):
        sch.unroll(loop)


@T.prim_func(s_tir=True)
def in_place(A: T.Buffer((256,), "float32"), B: T.Buffer((256,), "float32")) -> None:
    for i in range(256):
        with T.sblock("update"):
            vi = T.axis.spatial(256, i)
            T.reads(A[vi], B[vi])
            T.writes(A[vi])
            A[vi] = A[vi] * T.float32(3) + B[vi]


@T.prim_func(s_tir=True)
def endless(A: T.Buffer((16,), "int64")) -> None:
    for i, j, k in T.grid(16, 1 << 20, 1 << 20):
        with T.sblock("spin"):
            vi, vj, vk = T.axis.remap("SRR", [i, j, k])
            T.reads(A[vi])
            T.writes(A[vi])
            with T.init():
                A[vi] = T.int64(0)
            A[vi] = (A[vi] * T.int64(3) + T.Cast("int64", vj)) ^ (T.Cast("int64", vk) + A[vi] * A[vi])


@T.prim_func(s_tir=True)
def crash(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")) -> None:
    for i in range(16):
        with T.sblock("far"):
            vi = T.axis.spatial(16, i)
            T.reads(A[0:16], B[vi])
            T.writes(B[vi])
            B[vi] = A[vi * 100000000 + B[vi] * 100000000 + 100000000]


@T.prim_func(s_tir=True)
def scalar(A: T.Buffer((16,), "float32"), n: T.int32) -> None:
    for i in range(16):
        with T.sblock("add"):
            vi = T.axis.spatial(16, i)
            A[vi] = A[vi] + T.Cast("float32", n)


@T.prim_func(s_tir=True)
def gather(
    A: T.Buffer((16, 4), "float32"), I: T.Buffer((32,), "int32"), B: T.Buffer((32, 4), "float32")
) -> None:
    for i, j in T.grid(32, 4):
        with T.sblock("gather"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[0:16, vj], I[vi])
            T.writes(B[vi, vj])
            B[vi, vj] = A[I[vi], vj]


@T.prim_func(s_tir=True)
def chase(
    A: T.Buffer((65536,), "int32"), I: T.Buffer((2, 2048), "int32"), B: T.Buffer((2, 2049), "int32")
) -> None:
    """Two threads; each reads next where its last number says, so that no two of its reads overlap."""
    for t in T.parallel(2):
        for i in range(2048):
            B[t, i + 1] = A[I[t, i] + B[t, i]]


@T.prim_func(s_tir=True)
def places(A: T.Buffer((2,), "int32")) -> None:
    """On which core each of two tasks runs."""
    for t in T.parallel(2):
        A[t] = T.call_extern("int32", "sched_getcpu")


@T.prim_func(s_tir=True)
def rights(A: T.Buffer((2,), "int32")) -> None:
    """By which policy the kernel schedules each of two tasks."""
    for t in T.parallel(2):
        A[t] = T.call_extern("int32", "sched_getscheduler", 0)


@T.prim_func(s_tir=True)
def aborts(A: T.Buffer((16,), "int64")) -> None:
    T.evaluate(T.call_extern("int32", "abort"))
    A[0] = T.int64(1)


@T.prim_func(s_tir=True)
def illegal(A: T.Buffer((16,), "int64")) -> None:
    T.evaluate(T.call_extern("int32", "raise", 4))
    A[0] = T.int64(1)


@T.prim_func(s_tir=True)
def exits(A: T.Buffer((16,), "int64")) -> None:
    T.evaluate(T.call_extern("int32", "_exit", 7))
    A[0] = T.int64(1)


@T.prim_func(s_tir=True)
def unknown_symbol(A: T.Buffer((16,), "int64")) -> None:
    T.evaluate(T.call_extern("int32", "tilefarm_no_such_function"))
    A[0] = T.int64(1)


@T.prim_func(s_tir=True)
def forks(A: T.Buffer((16,), "int64")) -> None:
    """The grandchild keeps every descriptor of its parent, the channel too."""
    if T.call_extern("int32", "fork") == 0:
        T.evaluate(T.call_extern("int32", "setsid"))
        T.evaluate(T.call_extern("int32", "sleep", 3600))


@T.prim_func(s_tir=True)
def hog(A: T.Buffer((16,), "int64")) -> None:
    held = T.alloc_buffer((1 << 32,), "int64")
    for i in range(1 << 32):
        held[i] = A[i % 16]
    A[0] = held[A[0]]


@T.prim_func(s_tir=True)
def not_a_number(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")) -> None:
    for i in range(16):
        with T.sblock("nan"):
            vi = T.axis.spatial(16, i)
            B[vi] = T.sqrt(A[vi] - T.float32(4))


HOSTILE = {
    "aborts": aborts,
    "illegal": illegal,
    "exits": exits,
    "unknown_symbol": unknown_symbol,
    "forks": forks,
    "hog": hog,
    "not_a_number": not_a_number,
}


def consumed_and_measured(module: Any, text: str) -> dict[str, bool]:
    """What a worker times for this trace, beside what `compile_tir` gives from a record of it."""
    from tvm.s_tir.meta_schedule.database import MemoryDatabase, TuningRecord
    from tvm.s_tir.meta_schedule.tir_integration import compile_tir
    from tvm.s_tir.schedule import Trace

    target = make_target(detect_local_target(num_cores=2))
    schedule = Schedule(module, debug_mask="none")
    Trace.apply_json_to_schedule(json.loads(text), schedule)
    database = MemoryDatabase()
    workload = database.commit_workload(module)
    database.commit_tuning_record(TuningRecord(schedule.trace, workload, [1.0], target))
    consumed = compile_tir(database, module["main"], target).mod
    measured = replay(load_module(save(module)), text)
    compiled = tvm.compile(consumed, target).mod
    return {
        "same_module": bool(tvm_ffi.structural_equal(consumed, measured)),
        "same_code": _code(compiled) == _code(compile_module(measured, detect_local_target(num_cores=2))),
        "rewrites_layout": "meta_schedule.layout_rewrite_preproc" in str(measured),
    }


def _code(module: Any) -> str:
    """LLVM's text without the addresses by which TVM names its alias classes."""
    return re.sub(r"0x[0-9a-f]+", "", str(module.inspect_source()))


def conv2d_int64() -> Any:
    data = te.placeholder((1, 3, 16, 16), name="data", dtype="int64")
    kernel = te.placeholder((4, 3, 3, 3), name="kernel", dtype="int64")
    out = topi.nn.conv2d_nchw(data, kernel, 1, 1, 1, "int64")
    return workload([data, kernel, out], index_dtype_override="int64")


def add_int64() -> Any:
    a, b = te.placeholder((8, 1, 4), name="a", dtype="int64"), te.placeholder((5, 4), name="b", dtype="int64")
    return workload([a, b, topi.add(a, b)], index_dtype_override="int64")


def dense() -> Any:
    data, weight = te.placeholder((16, 64), name="data"), te.placeholder((32, 64), name="weight")
    return workload([data, weight, topi.nn.dense(data, weight)])


def half(dtype: str) -> Any:
    a = te.placeholder((32, 32), name="A", dtype=dtype)
    return workload([a, topi.add(a, a)])


def bools() -> Any:
    a, b = te.placeholder((32,), name="A", dtype="int8"), te.placeholder((32,), name="B", dtype="uint16")
    return workload([a, b, topi.less(topi.cast(a, "int32"), topi.cast(b, "int32"))])
