"""Layers of large models: a thousand channels, what stands around products, what only moves. float32.

PW-1024, COLUMN-SUMS, BATCH-SUMS, BN-RELU and TO-NCHW served to make rules better since
(docs/design-space-log.md, "Layers of large models").
"""

from collections.abc import Sequence
from typing import Any

from bench.fresh import conv2d_nchw, depthwise_nchw, pool
from bench.suite import Build
from bench.unseen import dense, of_tests


def _attend(batch: int, rows: int, columns: int, depth: int) -> Build:
    """Weights times values: A[n, i, k] B[n, k, j]."""

    def build() -> Sequence[Any]:
        from tvm import te

        a = te.placeholder((batch, rows, depth), name="A")
        b = te.placeholder((batch, depth, columns), name="B")
        k = te.reduce_axis((0, depth), name="k")
        shape = (batch, rows, columns)
        return a, b, te.compute(shape, lambda n, i, j: te.sum(a[n, i, k] * b[n, k, j], axis=k), name="C")

    return build


def _masked_scores(batch: int, rows: int, depth: int) -> Build:
    """Queries times keys, scaled, a mask added."""

    def build() -> Sequence[Any]:
        from tvm import te

        a = te.placeholder((batch, rows, depth), name="A")
        b = te.placeholder((batch, rows, depth), name="B")
        mask = te.placeholder((rows, rows), name="mask")
        k = te.reduce_axis((0, depth), name="k")
        shape = (batch, rows, rows)
        c = te.compute(shape, lambda n, i, j: te.sum(a[n, i, k] * b[n, j, k], axis=k), name="C")
        scale = te.const(depth**-0.5, "float32")
        return a, b, mask, te.compute(shape, lambda n, i, j: c[n, i, j] * scale + mask[i, j], name="D")

    return build


def _conv2d_blocked(size: int, channels: int, filters: int, block: int) -> Build:
    """3x3 of an image whose channels lie in blocks, its edges padded: NCHW16c, as topi and oneDNN have it."""

    def build() -> Sequence[Any]:
        from tvm import te, topi

        data = te.placeholder((1, channels // block, size, size, block), name="data")
        shape = (filters // block, channels // block, 3, 3, block, block)
        weight = te.placeholder(shape, name="weight")
        image = topi.nn.pad(data, [0, 0, 1, 1, 0], name="pad")
        c, i = te.reduce_axis((0, channels // block), name="c"), te.reduce_axis((0, block), name="i")
        y, x = te.reduce_axis((0, 3), name="y"), te.reduce_axis((0, 3), name="x")

        def out(n: Any, f: Any, h: Any, w: Any, o: Any) -> Any:
            return te.sum(image[n, c, h + y, w + x, i] * weight[f, c, y, x, i, o], axis=[c, y, x, i])

        return data, weight, te.compute((1, filters // block, size, size, block), out, name="out")

    return build


def _conv1d_ncw(channels: int, width: int, filters: int, kernel: int, dilation: int) -> Build:
    def build() -> Sequence[Any]:
        from tvm import te, topi

        data = te.placeholder((1, channels, width), name="data")
        weight = te.placeholder((filters, channels, kernel), name="weight")
        padding = dilation * (kernel - 1) // 2
        out = topi.nn.conv1d(data, weight, 1, padding, dilation, data_layout="NCW")
        return data, weight, topi.nn.relu(out)

    return build


def _batch_norm_relu(channels: int, size: int) -> Build:
    def build() -> Sequence[Any]:
        from tvm import te

        data = te.placeholder((1, channels, size, size), name="data")
        scale = te.placeholder((channels,), name="scale")
        shift = te.placeholder((channels,), name="shift")

        def out(n: Any, c: Any, h: Any, w: Any) -> Any:
            return te.max(data[n, c, h, w] * scale[c] + shift[c], te.const(0, "float32"))

        return data, scale, shift, te.compute(data.shape, out, name="out")

    return build


def _channels_first(size: int, channels: int) -> Build:
    """NHWC to NCHW."""

    def build() -> Sequence[Any]:
        from tvm import te

        data = te.placeholder((1, size, size, channels), name="data")
        shape = (1, channels, size, size)
        return data, te.compute(shape, lambda n, c, h, w: data[n, h, w, c], name="out")

    return build


def _sums(shape: Sequence[int], axes: Sequence[int]) -> Build:
    """Gradients of biases, statistics of a batch."""

    def build() -> Sequence[Any]:
        from tvm import te, topi

        data = te.placeholder(tuple(shape), name="data")
        return data, topi.sum(data, axis=tuple(axes))

    return build


def _rms_norm(rows: int, columns: int) -> Build:
    def build() -> Sequence[Any]:
        from tvm import te, topi

        data = te.placeholder((rows, columns), name="data")
        scale = te.placeholder((columns,), name="scale")
        return data, scale, topi.nn.rms_norm(data, scale, [1])

    return build


LAYERS: dict[str, Build] = {
    "PW-1024": of_tests("conv2d_nhwc", 1, 14, 14, 1024, 256, 1, 1, 0),
    "PW-2048": of_tests("conv2d_nhwc", 1, 7, 7, 2048, 512, 1, 1, 0),
    "SHORT-S2": of_tests("conv2d_nhwc", 1, 28, 28, 512, 1024, 1, 2, 0),
    "RES-S2": of_tests("conv2d_nhwc", 1, 28, 28, 512, 256, 3, 2, 1),
    "FFN": dense(128, 1024, 4096),
    "NCHW-1024": conv2d_nchw(1024, 14, 14, 256, 1, 1, 0),
    "ATTEND": _attend(12, 128, 64, 128),
    "MASKED": _masked_scores(12, 128, 64),
    "BLOCKED": _conv2d_blocked(28, 128, 128, 16),
    "C1D-NCW": _conv1d_ncw(128, 512, 128, 3, 2),
    "DEP-7x7": of_tests("depthwise_conv2d_nhwc", 1, 28, 28, 192, 7, 1, 3),
    "DEP-NCHW-S2": depthwise_nchw(144, 56, 56, 3, 2, 1),
    "BN-RELU": _batch_norm_relu(64, 112),
    "TO-NCHW": _channels_first(56, 256),
    "COLUMN-SUMS": _sums((4096, 512), (0,)),
    "BATCH-SUMS": _sums((8, 28, 28, 128), (0, 1, 2)),
    "GAP-NCHW": pool("avg", "NCHW", (8, 1280, 7, 7), 7, 1, 0),
    "RMS-NORM": _rms_norm(128, 4096),
}
