"""Workloads that no rule was developed on: other layouts, odd extents, epilogues. float32, N = 1 or 2."""

from collections.abc import Sequence
from typing import Any

from bench.suite import Build


def _conv2d_nchw(*shape: int) -> Build:
    """(N, CI, H, W, CO, kernel, stride, padding)."""

    def build() -> Sequence[Any]:
        from tvm import te, topi

        batch, channels, height, width, filters, kernel, stride, padding = shape
        data = te.placeholder((batch, channels, height, width), name="data")
        weight = te.placeholder((filters, channels, kernel, kernel), name="weight")
        return data, weight, topi.nn.relu(topi.nn.conv2d_nchw(data, weight, stride, padding, 1))

    return build


def _conv2d_transpose_nchw(*shape: int) -> Build:
    """(N, CI, H, W, CO, kernel, stride, padding)."""

    def build() -> Sequence[Any]:
        from tvm import te, topi

        batch, channels, height, width, filters, kernel, stride, padding = shape
        data = te.placeholder((batch, channels, height, width), name="data")
        weight = te.placeholder((channels, filters, kernel, kernel), name="weight")
        pads = (padding, padding)
        out = topi.nn.conv2d_transpose_nchw(data, weight, (stride, stride), pads, "float32", (0, 0))
        return data, weight, topi.nn.relu(out)

    return build


def _matmul(batch: int, rows: int, columns: int, depth: int) -> Build:
    def build() -> Sequence[Any]:
        from tvm import te

        a = te.placeholder((batch, rows, depth), name="A")
        b = te.placeholder((batch, depth, columns), name="B")
        bias = te.placeholder((columns,), name="bias")
        k = te.reduce_axis((0, depth), name="k")
        c = te.compute((batch, rows, columns), lambda n, i, j: te.sum(a[n, i, k] * b[n, k, j], axis=k))
        return a, b, bias, te.compute(c.shape, lambda n, i, j: te.max(c[n, i, j] + bias[j], 0.0), name="out")

    return build


def _conv2d_nhwc(*shape: int) -> Build:
    """(N, H, W, CI, CO, kernel, stride, padding, dilation, groups)."""

    def build() -> Sequence[Any]:
        from tvm.s_tir.meta_schedule.testing import te_workload

        return tuple(te_workload.conv2d_nhwc(*shape))

    return build


def of_tests(name: str, *shape: int) -> Build:
    """A workload of TVM's tests in a shape of ours."""

    def build() -> Sequence[Any]:
        from tvm.s_tir.meta_schedule.testing import te_workload

        return tuple(getattr(te_workload, name)(*shape))

    return build


def _scores(batch: int, rows: int, columns: int, depth: int) -> Build:
    """Both operands lie along the depth, as queries and keys do."""

    def build() -> Sequence[Any]:
        from tvm import te

        a = te.placeholder((batch, rows, depth), name="A")
        b = te.placeholder((batch, columns, depth), name="B")
        k = te.reduce_axis((0, depth), name="k")
        shape = (batch, rows, columns)
        return a, b, te.compute(shape, lambda n, i, j: te.sum(a[n, i, k] * b[n, j, k], axis=k), name="C")

    return build


def dense(rows: int, columns: int, depth: int) -> Build:
    def build() -> Sequence[Any]:
        from tvm import te, topi

        data = te.placeholder((rows, depth), name="data")
        weight = te.placeholder((columns, depth), name="weight")
        bias = te.placeholder((columns,), name="bias")
        return data, weight, bias, topi.nn.dense(data, weight, bias)

    return build


def _fast_softmax(rows: int, columns: int) -> Build:
    """A polynomial in place of exp, as relax's FastMathTransform writes it."""

    def build() -> Sequence[Any]:
        from tvm import te, topi

        data = te.placeholder((rows, columns), name="data")
        return data, topi.nn.fast_softmax(data, 1)

    return build


def layer_norm(rows: int, columns: int) -> Build:
    def build() -> Sequence[Any]:
        from tvm import te, topi

        data = te.placeholder((rows, columns), name="data")
        scale = te.placeholder((columns,), name="scale")
        shift = te.placeholder((columns,), name="shift")
        return data, scale, shift, topi.nn.layer_norm(data, scale, shift, [1])

    return build


UNSEEN: dict[str, Build] = {
    "NCHW-3x3": _conv2d_nchw(1, 96, 27, 27, 128, 3, 1, 1),
    "NCHW-stem": _conv2d_nchw(1, 3, 112, 112, 32, 7, 2, 3),
    "NHWC-17": _conv2d_nhwc(1, 17, 17, 160, 192, 3, 1, 1, 1, 1),
    "NHWC-G8": _conv2d_nhwc(2, 20, 20, 128, 256, 3, 1, 1, 1, 8),
    "BMM-bias": _matmul(6, 197, 197, 64),
    "GMM-prime": _matmul(1, 241, 509, 769),
    "T2D": of_tests("conv2d_transpose_nhwc", 1, 14, 14, 192, 96, 4, 2, 1),
    "T2D-odd": of_tests("conv2d_transpose_nhwc", 1, 19, 19, 80, 72, 3, 2, 1),
    "T2D-NCHW": _conv2d_transpose_nchw(1, 256, 16, 16, 128, 4, 2, 1),
    "DEP-5x5": of_tests("depthwise_conv2d_nhwc", 1, 28, 28, 240, 5, 1, 2),
    "C3D": of_tests("conv3d_ndhwc", 1, 8, 20, 20, 32, 48, 3, 1, 1),
    "SCORES": _scores(8, 257, 257, 80),
    "DENSE-197": dense(197, 2304, 768),
    "NORM": layer_norm(1576, 1280),
    "SFM-fast": _fast_softmax(1024, 1024),
}
