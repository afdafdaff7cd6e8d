"""The classroom's modules, written for TVM 0.27: small workloads whose tuning is well understood.

`modules()` gives them by name; `mm_space(sch)` is the hand-written stochastic space of `mm`.
"""

import tvm
from tvm.script import ir as I
from tvm.script import tirx as T


@I.ir_module
class MM:
    @T.prim_func(s_tir=True)
    def main(
        A: T.Buffer((128, 128), "float32"),
        B: T.Buffer((128, 128), "float32"),
        C: T.Buffer((128, 128), "float32"),
    ):
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        for i, j, k in T.grid(128, 128, 128):
            with T.sblock("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


@I.ir_module
class MMRelu:
    @T.prim_func(s_tir=True)
    def main(
        A: T.Buffer((128, 128), "float32"),
        B: T.Buffer((128, 128), "float32"),
        C: T.Buffer((128, 128), "float32"),
    ):
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        Y = T.sblock_alloc_buffer((128, 128), dtype="float32")
        for i, j, k in T.grid(128, 128, 128):
            with T.sblock("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + A[vi, vk] * B[vk, vj]
        for i, j in T.grid(128, 128):
            with T.sblock("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = T.max(Y[vi, vj], T.float32(0))


@I.ir_module
class BMMRelu:
    @T.prim_func(s_tir=True)
    def main(
        A: T.Buffer((16, 128, 128), "float32"),
        B: T.Buffer((16, 128, 128), "float32"),
        C: T.Buffer((16, 128, 128), "float32"),
    ):
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        Y = T.sblock_alloc_buffer((16, 128, 128), dtype="float32")
        for n, i, j, k in T.grid(16, 128, 128, 128):
            with T.sblock("Y"):
                vn, vi, vj, vk = T.axis.remap("SSSR", [n, i, j, k])
                with T.init():
                    Y[vn, vi, vj] = T.float32(0)
                Y[vn, vi, vj] = Y[vn, vi, vj] + A[vn, vi, vk] * B[vn, vk, vj]
        for n, i, j in T.grid(16, 128, 128):
            with T.sblock("C"):
                vn, vi, vj = T.axis.remap("SSS", [n, i, j])
                C[vn, vi, vj] = T.max(Y[vn, vi, vj], T.float32(0))


@I.ir_module
class BroadcastAdd:
    @T.prim_func(s_tir=True)
    def main(
        A: T.Buffer((4, 4), "int64"),
        B: T.Buffer((4,), "int64"),
        C: T.Buffer((4, 4), "int64"),
    ):
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        for i, j in T.grid(4, 4):
            with T.sblock("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vi, vj] + B[vj]


@I.ir_module
class Conv2d:
    @T.prim_func(s_tir=True)
    def main(
        A: T.Buffer((1, 1, 8, 8), "int64"),
        W: T.Buffer((2, 1, 3, 3), "int64"),
        C: T.Buffer((1, 2, 6, 6), "int64"),
    ):
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        for b, k, i, j, di, dj, q in T.grid(1, 2, 6, 6, 3, 3, 1):
            with T.sblock("C"):
                vb, vk, vi, vj, vdi, vdj, vq = T.axis.remap("SSSSRRR", [b, k, i, j, di, dj, q])
                with T.init():
                    C[vb, vk, vi, vj] = T.int64(0)
                C[vb, vk, vi, vj] = C[vb, vk, vi, vj] + A[vb, vq, vi + vdi, vj + vdj] * W[vk, vq, vdi, vdj]


@I.ir_module
class Linear0:
    @T.prim_func(s_tir=True)
    def linear0(
        X: T.Buffer((1, 784), "float32"),
        W: T.Buffer((128, 784), "float32"),
        B: T.Buffer((128,), "float32"),
        Z: T.Buffer((1, 128), "float32"),
    ):
        T.func_attr({"global_symbol": "linear0", "tirx.noalias": True})
        Y = T.sblock_alloc_buffer((1, 128), dtype="float32")
        for i, j, k in T.grid(1, 128, 784):
            with T.sblock("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + X[vi, vk] * W[vj, vk]
        for i, j in T.grid(1, 128):
            with T.sblock("Z"):
                vi, vj = T.axis.remap("SS", [i, j])
                Z[vi, vj] = Y[vi, vj] + B[vj]


def modules() -> dict[str, tvm.IRModule]:
    """Each classroom workload as a module of its own."""
    return {
        "mm": MM,
        "mm_relu": MMRelu,
        "bmm_relu": BMMRelu,
        "broadcast_add": BroadcastAdd,
        "conv2d": Conv2d,
        "linear0": Linear0,
    }


def mm_space(sch: tvm.s_tir.Schedule) -> tvm.s_tir.Schedule:
    """The hand-written space of `mm`: one random tile of the j loop (innermost at most 16)."""
    block = sch.get_sblock(name="C", func_name="main")
    i, j, k = sch.get_loops(block=block)
    factors = sch.sample_perfect_tile(loop=j, n=2, max_innermost_factor=16)
    j_0, j_1 = sch.split(loop=j, factors=factors)
    sch.reorder(i, j_0, k, j_1)
    sch.decompose_reduction(block, k)
    return sch
