"""Modules that the intake must refuse, or tell one thing about."""

# ruff: noqa: N803, N805, N806, N812  # TVMScript is not Python: its names are the paper's

from tvm.script import ir as I
from tvm.script import tirx as T


@I.ir_module
class TwoNames:
    @T.prim_func(s_tir=True)
    def first(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
        T.func_attr({"tirx.noalias": True, "op_pattern": 0})
        for i, j in T.grid(8, 8):
            with T.sblock("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)

    @T.prim_func(s_tir=True)
    def second(X: T.Buffer((8, 8), "float32"), Y: T.Buffer((8, 8), "float32")):
        for i, j in T.grid(8, 8):
            with T.sblock("another_name"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = X[vi, vj] + T.float32(1)


@I.ir_module
class Symbolic:
    @T.prim_func(s_tir=True)
    def dynamic(a: T.handle, b: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n, 8), "float32")
        B = T.match_buffer(b, (n, 8), "float32")
        for i, j in T.grid(n, 8):
            with T.sblock("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)


@I.ir_module
class Marked:
    @T.prim_func(s_tir=True)
    def done(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
        T.func_attr({"tirx.is_scheduled": True})
        for i, j in T.grid(8, 8):
            with T.sblock("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)


@I.ir_module
class Vectorised:
    @T.prim_func(s_tir=True)
    def lanes(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
        for i in range(8):
            for j in T.vectorized(8):
                with T.sblock("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = A[vi, vj] + T.float32(1)


@I.ir_module
class Blockless:
    @T.prim_func(s_tir=True)
    def lowered(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
        for i, j in T.grid(8, 8):
            B[i, j] = A[i, j]


@I.ir_module
class Scalar:
    @T.prim_func(s_tir=True)
    def scaled(A: T.Buffer((8, 8), "float32"), n: T.int32, B: T.Buffer((8, 8), "float32")):
        for i, j in T.grid(8, 8):
            with T.sblock("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.cast(n, "float32")


@I.ir_module
class OneNameTwice:
    @T.prim_func(s_tir=True)
    def twins(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
        C = T.sblock_alloc_buffer((8, 8), "float32")
        for i, j in T.grid(8, 8):
            with T.sblock("twin"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vi, vj] + T.float32(1)
        for i, j in T.grid(8, 8):
            with T.sblock("twin"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = C[vi, vj] * T.float32(2)


@I.ir_module
class Nameless:
    @T.prim_func(s_tir=True)
    def unnamed(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
        for i, j in T.grid(8, 8):
            with T.sblock(""):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)


@I.ir_module
class OverNothing:
    @T.prim_func(s_tir=True)
    def empty(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8,), "float32")):
        for i, k in T.grid(8, 0):
            with T.sblock("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vk]


@I.ir_module
class Strided:
    @T.prim_func(s_tir=True)
    def gaps(a: T.handle, B: T.Buffer((8, 8), "float32")):
        A = T.match_buffer(a, (8, 8), "float32", strides=[16, 1])
        for i, j in T.grid(8, 8):
            with T.sblock("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)


@I.ir_module
class Offset:
    @T.prim_func(s_tir=True)
    def later(a: T.handle, B: T.Buffer((8, 8), "float32")):
        A = T.match_buffer(a, (8, 8), "float32", elem_offset=8)
        for i, j in T.grid(8, 8):
            with T.sblock("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)


@I.ir_module
class SaidToBeCompact:
    """Strides that say what is so anyway, or are told by the caller."""

    @T.prim_func(s_tir=True)
    def stated(a: T.handle, b: T.handle):
        stride = T.int32()
        A = T.match_buffer(a, (8, 8), "float32", strides=[8, 1], elem_offset=0)
        B = T.match_buffer(b, (8, 8), "float32", strides=[stride, 1])
        for i, j in T.grid(8, 8):
            with T.sblock("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)
