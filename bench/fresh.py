"""Workloads of kinds that the other lists lack: operands that lie otherwise, long sums, poolings. float32.

Six of them served to make rules better since
(docs/design-space-log.md, "Zen 4, and workloads of other kinds").
"""

from collections.abc import Sequence
from typing import Any

from bench.suite import Build
from bench.unseen import layer_norm, of_tests


def matmul(rows: int, columns: int, depth: int, *, turned: bool = False) -> Build:
    """A[i, k] B[k, j], or A[k, i] B[k, j] as in a gradient of weights."""

    def build() -> Sequence[Any]:
        from tvm import te

        a = te.placeholder((depth, rows) if turned else (rows, depth), name="A")
        b = te.placeholder((depth, columns), name="B")
        k = te.reduce_axis((0, depth), name="k")

        def product(i: Any, j: Any) -> Any:
            return te.sum((a[k, i] if turned else a[i, k]) * b[k, j], axis=k)

        return a, b, te.compute((rows, columns), product, name="C")

    return build


def conv2d_nchw(*shape: int) -> Build:
    """(CI, H, W, CO, kernel, stride, padding), with bias and ReLU."""

    def build() -> Sequence[Any]:
        from tvm import te, topi

        channels, height, width, filters, kernel, stride, padding = shape
        data = te.placeholder((1, channels, height, width), name="data")
        weight = te.placeholder((filters, channels, kernel, kernel), name="weight")
        bias = te.placeholder((1, filters, 1, 1), name="bias")
        out = topi.nn.conv2d_nchw(data, weight, stride, padding, 1)
        return data, weight, bias, topi.nn.relu(topi.add(out, bias))

    return build


def _residual_nhwc(*shape: int) -> Build:
    """(H, W, C): 3x3, bias, what came in added, ReLU."""

    def build() -> Sequence[Any]:
        from tvm import te, topi
        from tvm.s_tir.meta_schedule.testing import te_workload

        height, width, channels = shape
        data, weight, out = te_workload.conv2d_nhwc(1, height, width, channels, channels, 3, 1, 1)
        bias = te.placeholder((channels,), name="bias")
        skip = te.placeholder(out.shape, name="skip")
        return data, weight, bias, skip, topi.nn.relu(topi.add(topi.add(out, bias), skip))

    return build


def depthwise_nchw(*shape: int) -> Build:
    """(C, H, W, kernel, stride, padding)."""

    def build() -> Sequence[Any]:
        from tvm import te, topi

        channels, height, width, kernel, stride, padding = shape
        data = te.placeholder((1, channels, height, width), name="data")
        weight = te.placeholder((channels, 1, kernel, kernel), name="weight")
        return data, weight, topi.nn.depthwise_conv2d_nchw(data, weight, stride, padding, 1)

    return build


def pool(kind: str, layout: str, shape: Sequence[int], size: int, stride: int, padding: int) -> Build:
    def build() -> Sequence[Any]:
        from tvm import te, topi

        data = te.placeholder(tuple(shape), name="data")
        pads = [padding] * 4
        out = topi.nn.pool2d(data, [size] * 2, [stride] * 2, [1, 1], pads, kind, layout=layout)
        return data, out

    return build


FRESH: dict[str, Build] = {
    "GEMV-NN": matmul(1, 5504, 2048),
    "SKINNY-NN": matmul(8, 2048, 2048),
    "LONG-K": matmul(48, 40, 12544),
    "GMM-TN": matmul(384, 640, 512, turned=True),
    "TALL": matmul(4096, 24, 256),
    "NCHW-PW": conv2d_nchw(256, 28, 28, 512, 1, 1, 0),
    "NCHW-S2": conv2d_nchw(64, 56, 56, 128, 3, 2, 1),
    "NHWC-stem": of_tests("conv2d_nhwc", 1, 160, 160, 3, 40, 3, 2, 1),
    "RESIDUAL": _residual_nhwc(40, 40, 96),
    "DEP-S2": of_tests("depthwise_conv2d_nhwc", 1, 56, 56, 144, 3, 2, 1),
    "DEP-NCHW": depthwise_nchw(96, 56, 56, 3, 1, 1),
    "POOL": pool("max", "NCHW", (1, 64, 112, 112), 3, 2, 1),
    "GAP": pool("avg", "NHWC", (8, 7, 7, 1280), 7, 1, 0),
    "NORM-128": layer_norm(128, 768),
}
