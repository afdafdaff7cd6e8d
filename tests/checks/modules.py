"""Real TVM modules of the kinds that users submit, as TVM itself saves them."""
# TVMScript has its own naming, and its functions take no self.
# ruff: noqa: N805, N806, N812 - TVMScript has its own names

import functools
import json
from collections.abc import Callable

import tvm
from tvm import te, topi
from tvm.script import ir as I
from tvm.script import tirx as T


def _from_te(tensors: list[te.Tensor], **kwargs: str) -> tvm.IRModule:
    return tvm.IRModule({"main": te.create_prim_func(tensors, **kwargs)})


def _matmul(n: int, m: int, k: int, dtype: str = "float32") -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    a = te.placeholder((n, k), name="A", dtype=dtype)
    b = te.placeholder((k, m), name="B", dtype=dtype)
    axis = te.reduce_axis((0, k), name="k")
    return a, b, te.compute((n, m), lambda i, j: te.sum(a[i, axis] * b[axis, j], axis=axis), name="C")


def _matmul_module() -> tvm.IRModule:
    return _from_te(list(_matmul(128, 128, 128)))


def _matmul_relu() -> tvm.IRModule:
    a, b, c = _matmul(128, 128, 128)
    return _from_te([a, b, topi.nn.relu(c)])


def _fast_softmax() -> tvm.IRModule:
    """As relax's FastMathTransform writes it: a polynomial, and a power of two out of an integer's bits."""
    x = te.placeholder((4, 8), name="X")
    return _from_te([x, topi.nn.fast_softmax(x, 1)])


def _matmul_int64_index() -> tvm.IRModule:
    return _from_te(list(_matmul(64, 32, 16)), index_dtype_override="int64")


def _matmul_bf16() -> tvm.IRModule:
    a = te.placeholder((64, 64), name="A", dtype="bfloat16")
    b = te.placeholder((64, 64), name="B", dtype="bfloat16")
    k = te.reduce_axis((0, 64), name="k")
    c = te.compute(
        (64, 64),
        lambda i, j: te.sum(a[i, k].astype("float32") * b[k, j].astype("float32"), axis=k),
        name="C",
    )
    return _from_te([a, b, topi.cast(c, "bfloat16")])


def _quantised_matmul() -> tvm.IRModule:
    a = te.placeholder((64, 64), name="A", dtype="int8")
    b = te.placeholder((64, 64), name="B", dtype="uint8")
    k = te.reduce_axis((0, 64), name="k")
    c = te.compute(
        (64, 64), lambda i, j: te.sum(a[i, k].astype("int32") * b[k, j].astype("int32"), axis=k), name="C"
    )
    return _from_te([a, b, te.compute((64, 64), lambda i, j: (c[i, j] >> 3) & 127, name="D")])


def _conv2d(dtype: str = "float32") -> tvm.IRModule:
    data = te.placeholder((1, 16, 14, 14), name="data", dtype=dtype)
    weight = te.placeholder((32, 16, 3, 3), name="weight", dtype=dtype)
    return _from_te([data, weight, topi.nn.conv2d_nchw(data, weight, 1, 1, 1)])


def _winograd() -> tvm.IRModule:
    data = te.placeholder((1, 14, 14, 64), name="data")
    weight = te.placeholder((3, 3, 64, 64), name="weight")
    return _from_te([data, weight, topi.nn.conv2d_winograd_nhwc(data, weight, 1, 1, 1, "float32")])


def _depthwise() -> tvm.IRModule:
    data = te.placeholder((1, 16, 14, 14), name="data")
    weight = te.placeholder((16, 1, 3, 3), name="weight")
    return _from_te([data, weight, topi.nn.depthwise_conv2d_nchw(data, weight, 1, 1, 1)])


def _transposed_conv2d() -> tvm.IRModule:
    data = te.placeholder((1, 16, 7, 7), name="data")
    weight = te.placeholder((16, 8, 3, 3), name="weight")
    return _from_te(
        [data, weight, topi.nn.conv2d_transpose_nchw(data, weight, (2, 2), (1, 1), "float32", (1, 1))]
    )


def _dense_layout_free(**kwargs: str) -> tvm.IRModule:
    a = te.placeholder((16, 64), name="A")
    b = te.placeholder((32, 64), name="B")
    return _from_te([a, b, topi.nn.dense(a, b)], **kwargs)


def _batch_matmul() -> tvm.IRModule:
    a = te.placeholder((4, 16, 64), name="A")
    b = te.placeholder((4, 32, 64), name="B")
    return _from_te([a, b, topi.nn.batch_matmul(a, b)])


def _unary(function: Callable[[te.Tensor], te.Tensor], dtype: str = "float32") -> tvm.IRModule:
    a = te.placeholder((8, 64), name="A", dtype=dtype)
    return _from_te([a, function(a)])


def _binary(function: Callable[[te.Tensor, te.Tensor], te.Tensor], dtype: str = "float32") -> tvm.IRModule:
    a = te.placeholder((8, 64), name="A", dtype=dtype)
    b = te.placeholder((64,), name="B", dtype=dtype)
    return _from_te([a, b, function(a, b)])


def _layer_norm() -> tvm.IRModule:
    a = te.placeholder((8, 64), name="A")
    gamma = te.placeholder((64,), name="gamma")
    beta = te.placeholder((64,), name="beta")
    return _from_te([a, gamma, beta, topi.nn.layer_norm(a, gamma, beta, [1], 1e-5)])


def _gather() -> tvm.IRModule:
    table = te.placeholder((100, 16), name="table")
    indices = te.placeholder((8,), name="indices", dtype="int32")
    return _from_te([table, indices, topi.take(table, indices, axis=0, mode="clip")])


def _max_pool() -> tvm.IRModule:
    data = te.placeholder((1, 8, 14, 14), name="data")
    return _from_te([data, topi.nn.pool2d(data, (3, 3), (2, 2), (1, 1), (1, 1, 1, 1), "max")])


def _average_pool() -> tvm.IRModule:
    data = te.placeholder((1, 8, 14, 14), name="data")
    return _from_te([data, topi.nn.pool2d(data, (3, 3), (2, 2), (1, 1), (1, 1, 1, 1), "avg")])


def _resize() -> tvm.IRModule:
    data = te.placeholder((1, 8, 14, 14), name="data")
    return _from_te([data, topi.image.resize2d(data, [0.0] * 4, (28, 28), layout="NCHW", method="linear")])


def _scalar_argument() -> tvm.IRModule:
    a = te.placeholder((16,), name="A")
    scale = te.placeholder((), name="scale")
    return _from_te([a, scale, te.compute((16,), lambda i: a[i] * scale(), name="B")])


def _tvmscript() -> tvm.IRModule:
    @I.ir_module
    class Module:
        @T.prim_func(s_tir=True)
        def first(a: T.handle, b: T.handle) -> None:
            T.func_attr({"global_symbol": "first", "tirx.noalias": True})
            A = T.match_buffer(a, (32, 32), "float32")
            B = T.match_buffer(b, (32, 32), "float32")
            for i, j in T.grid(32, 32):
                with T.sblock("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = T.if_then_else(vi < vj, A[vi, vj] * T.float32(2), T.exp(A[vj, vi]))

        @T.prim_func(s_tir=True)
        def second(a: T.Buffer((16,), "int32"), b: T.Buffer((16,), "int32")) -> None:
            T.func_attr({"tirx.noalias": True})
            c = T.sblock_alloc_buffer((16,), "int32")
            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    c[vi] = T.Select(a[vi] > 3 and a[vi] != 7, a[vi] // 2, a[vi] % 3)
            for i in range(16):
                with T.sblock("B"):
                    vi = T.axis.spatial(16, i)
                    b[vi] = T.min(c[vi], T.truncdiv(a[15 - vi], 2)) - T.truncmod(a[vi], 5)

    return Module


def _argmax_tvmscript() -> tvm.IRModule:
    @I.ir_module
    class Module:
        @T.prim_func(s_tir=True)
        def main(a: T.Buffer((8, 32), "float32"), b: T.Buffer((8,), "int32")) -> None:
            T.func_attr({"tirx.noalias": True})
            best = T.sblock_alloc_buffer((8,), "float32")
            for i, k in T.grid(8, 32):
                with T.sblock("argmax"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        b[vi] = 0
                        best[vi] = T.min_value("float32")
                    v_b: T.let[T.int32] = T.Select(best[vi] >= a[vi, vk], b[vi], vk)
                    v_best: T.let[T.float32] = T.Select(best[vi] >= a[vi, vk], best[vi], a[vi, vk])
                    b[vi] = v_b
                    best[vi] = v_best

    return Module


BUILDERS: dict[str, Callable[[], tvm.IRModule]] = {
    "matmul": _matmul_module,
    "matmul_relu": _matmul_relu,
    "matmul_int64_index": _matmul_int64_index,
    "matmul_bf16": _matmul_bf16,
    "fast_softmax": _fast_softmax,
    "quantised_matmul": _quantised_matmul,
    "conv2d": _conv2d,
    "conv2d_int64": functools.partial(_conv2d, "int64"),
    "winograd": _winograd,
    "depthwise": _depthwise,
    "transposed_conv2d": _transposed_conv2d,
    "dense_layout_free": _dense_layout_free,
    # As Relax has it.
    "dense_layout_free_int64": functools.partial(_dense_layout_free, index_dtype_override="int64"),
    "batch_matmul": _batch_matmul,
    "softmax": lambda: _unary(topi.nn.softmax),
    "log_softmax": lambda: _unary(topi.nn.log_softmax),
    "layer_norm": _layer_norm,
    "gelu": lambda: _unary(
        lambda a: te.compute(a.shape, lambda *i: a(*i) * 0.5 * (1.0 + te.erf(a(*i) / 1.414)))
    ),
    "sigmoid": lambda: _unary(topi.sigmoid),
    "tanh": lambda: _unary(topi.tanh),
    "rsqrt": lambda: _unary(topi.rsqrt),
    "leaky_relu": lambda: _unary(lambda a: topi.nn.leaky_relu(a, 0.1)),
    "floor": lambda: _unary(topi.floor),
    "round": lambda: _unary(topi.round),
    "trunc": lambda: _unary(topi.trunc),
    "ceil": lambda: _unary(topi.ceil),
    "abs": lambda: _unary(topi.abs),
    "sign": lambda: _unary(topi.sign),
    "isnan": lambda: _unary(topi.isnan),
    "log2": lambda: _unary(topi.log2),
    "sin": lambda: _unary(topi.sin),
    "cos": lambda: _unary(topi.cos),
    "argmax": lambda: _unary(lambda a: topi.argmax(a, axis=1)),
    "argmin": lambda: _unary(lambda a: topi.argmin(a, axis=1)),
    "sum": lambda: _unary(lambda a: topi.sum(a, axis=1)),
    "max": lambda: _unary(lambda a: topi.max(a, axis=1)),
    "prod": lambda: _unary(lambda a: topi.prod(a, axis=1)),
    "all": lambda: _unary(lambda a: topi.all(a, axis=1), "bool"),
    "transpose": lambda: _unary(lambda a: topi.transpose(a, (1, 0))),
    "reshape": lambda: _unary(lambda a: topi.reshape(a, (4, 128))),
    "concatenate": lambda: _unary(lambda a: topi.concatenate([a, a], 1)),
    "strided_slice": lambda: _unary(lambda a: topi.strided_slice(a, [0, 0], [4, 32], [1, 2])),
    "pad": lambda: _unary(lambda a: topi.nn.pad(a, (1, 1), (2, 2), 0.0)),
    "cast_f16": lambda: _unary(lambda a: topi.cast(a, "float16")),
    "cast_f8": lambda: _unary(lambda a: topi.cast(a, "float8_e4m3fn")),
    "clip": lambda: _unary(lambda a: topi.clip(a, 0.0, 6.0)),
    "cumulative_where": lambda: _unary(lambda a: topi.where(topi.greater(a, 0.0), a, topi.negative(a))),
    "add_int64": lambda: _binary(topi.add, "int64"),
    "power": lambda: _binary(topi.power),
    "floor_mod": lambda: _binary(topi.floor_mod, "int32"),
    "divide": lambda: _binary(topi.divide),
    "bitwise": lambda: _binary(
        lambda a, b: topi.bitwise_xor(topi.bitwise_or(a, b), topi.bitwise_not(a)), "int32"
    ),
    "logical": lambda: _binary(lambda a, b: topi.logical_or(a, topi.logical_not(b)), "bool"),
    "gather": _gather,
    "max_pool": _max_pool,
    "average_pool": _average_pool,
    "resize": _resize,
    "scalar_argument": _scalar_argument,
    "tvmscript": _tvmscript,
    "argmax_tvmscript": _argmax_tvmscript,
}


@functools.cache
def module(name: str) -> tvm.IRModule:
    return BUILDERS[name]()


@functools.cache
def saved(name: str) -> str:
    return tvm.ir.save_json(module(name))


def graph(name: str) -> dict[str, object]:
    """A fresh, changeable copy of the saved graph."""
    result: dict[str, object] = json.loads(saved(name))
    return result
