"""Kinds of functions that compilers of models fuse, whose sizes are drawn at random as well. float32."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from bench.drawing import Dice, Kind, image
from bench.fused import of_topi
from bench.suite import Build
from bench.unseen import of_tests


def _convolved(dice: Dice) -> tuple[int, ...]:
    """(H, W, CI, CO)."""
    return *image(dice), dice.extent(8, 256), dice.extent(8, 256)


def _channels(dice: Dice) -> tuple[int, ...]:
    """(H, W, C)."""
    return *image(dice), dice.extent(8, 512)


def _rows(dice: Dice) -> tuple[int, ...]:
    """(rows, columns, depth)."""
    return dice.extent(4, 512), dice.extent(16, 2048), dice.extent(16, 2048)


def _heads(dice: Dice) -> tuple[int, ...]:
    """(heads, queries, keys, width)."""
    return dice.extent(2, 32), dice.extent(1, 256), dice.extent(16, 512), dice.of(32, 48, 64, 80, 128)


def _table(dice: Dice) -> tuple[int, ...]:
    """(rows, columns)."""
    return dice.extent(16, 4096), dice.extent(32, 4096)


def _groups(dice: Dice) -> tuple[int, ...]:
    """(H, W, channels of a group, groups)."""
    return *image(dice), dice.extent(2, 48), dice.of(4, 8, 16, 32)


def _residual(rows: int, columns: int, channels: int, filters: int) -> Build:
    """3x3, channels last: bias, what came in added, ReLU."""

    def build() -> Any:
        from tvm import te, topi

        data, weight, out = of_tests("conv2d_nhwc", 1, rows, columns, channels, filters, 3, 1, 1)()
        bias, skip = te.placeholder((filters,), name="bias"), te.placeholder(out.shape, name="skip")
        return data, weight, bias, skip, topi.nn.relu(topi.add(topi.add(out, bias), skip))

    return build


def _joined(rows: int, columns: int, channels: int, filters: int) -> Build:
    """What was skipped joins what came up, and goes through 3x3, channels first."""

    def function(topi: Any, x: Any, y: Any, w: Any, b: Any) -> Any:
        both = topi.concatenate((x, y), axis=1)
        return topi.nn.relu(topi.add(topi.nn.conv2d_nchw(both, w, 1, 1, 1), b))

    maps = (1, channels, rows, columns)
    return of_topi(function, maps, maps, (filters, 2 * channels, 3, 3), (1, filters, 1, 1))


def _excited(rows: int, columns: int, channels: int, filters: int) -> Build:
    """Each channel scaled, then 1x1 with bias, channels first."""

    def function(topi: Any, x: Any, s: Any, w: Any, b: Any) -> Any:
        return topi.add(topi.nn.conv2d_nchw(topi.multiply(x, s), w, 1, 0, 1), b)

    shapes = (1, channels, rows, columns), (1, channels, 1, 1), (filters, channels, 1, 1), (1, filters, 1, 1)
    return of_topi(function, *shapes)


def _depthwise_relu6(rows: int, columns: int, channels: int) -> Build:
    """3x3, channels last: scale, shift, ReLU6."""

    def build() -> Any:
        from tvm import te, topi

        data, weight, out = of_tests("depthwise_conv2d_nhwc", 1, rows, columns, channels, 3, 1, 1)()
        scale, shift = (te.placeholder((channels,), name=name) for name in ("scale", "shift"))
        return data, weight, scale, shift, topi.clip(topi.add(topi.multiply(out, scale), shift), 0.0, 6.0)

    return build


def _hard_swish(topi: Any, x: Any) -> Any:
    return topi.multiply(x, topi.multiply(topi.clip(topi.add(x, 3.0), 0.0, 6.0), 1 / 6))


def _dense_hard_swish(rows: int, columns: int, depth: int) -> Build:
    return of_topi(
        lambda topi, x, w, b: _hard_swish(topi, topi.nn.dense(x, w, b)),
        *((rows, depth), (columns, depth), (columns,)),
    )


def _norm_dense(rows: int, columns: int, depth: int) -> Build:
    return of_topi(
        lambda topi, x, g, b, w: topi.nn.dense(topi.nn.layer_norm(x, g, b, [1]), w),
        *((rows, depth), (depth,), (depth,), (columns, depth)),
    )


def _attention(heads: int, queries: int, keys: int, width: int) -> Build:
    """A polynomial in place of exp, as Relax's FastMathTransform writes it; values lie turned."""

    def function(topi: Any, q: Any, k: Any, v: Any) -> Any:
        weights = topi.nn.fast_softmax(topi.nn.batch_matmul(q, k), 2)
        return topi.nn.batch_matmul(weights, v)

    return of_topi(function, (heads, queries, width), (heads, keys, width), (heads, width, keys))


def _rms_norm(rows: int, columns: int) -> Build:
    return of_topi(lambda topi, x, g: topi.nn.rms_norm(x, g, [1]), (rows, columns), (columns,))


def _unit_rows(rows: int, columns: int) -> Build:
    """Each row by the root of its sum of squares."""

    def function(topi: Any, x: Any) -> Any:
        squares = topi.sum(topi.multiply(x, x), 1, keepdims=True)
        return topi.multiply(x, topi.rsqrt(topi.add(squares, 1e-6)))

    return of_topi(function, (rows, columns))


def _group_norm(rows: int, columns: int, channels: int, groups: int) -> Build:
    every = channels * groups
    return of_topi(
        lambda topi, x, g, b: topi.nn.group_norm(x, g, b, groups, 1, [2, 3]),
        *((1, every, rows, columns), (every,), (every,)),
    )


def _channel_means(rows: int, columns: int, channels: int) -> Build:
    """Of each pixel, channels first."""
    return of_topi(
        lambda topi, x: topi.divide(topi.sum(x, 1, keepdims=True), float(channels)),
        (1, channels, rows, columns),
    )


def _added_larger(rows: int, columns: int, channels: int) -> Build:
    """A map of half the size by its nearest pixels, added to another, channels first."""

    def function(topi: Any, x: Any, y: Any) -> Any:
        size = (2 * rows, 2 * columns)
        larger = topi.image.resize2d(x, (0.0,) * 4, size, "NCHW", "nearest_neighbor", "asymmetric", "floor")
        return topi.add(larger, y)

    return of_topi(function, (1, channels, rows, columns), (1, channels, 2 * rows, 2 * columns))


def _by_heads(heads: int, queries: int, keys: int, width: int) -> Build:
    """Rows of all heads, side by side, become rows of each (a bias is added); of queries and keys at once."""

    def function(topi: Any, x: Any, b: Any) -> Any:
        apart = topi.reshape(topi.add(x, b), (queries + keys, heads, width))
        return topi.transpose(apart, (1, 0, 2))

    return of_topi(function, (queries + keys, heads * width), (heads * width,))


def _standardised(topi: Any, x: Any, axes: Sequence[int]) -> Any:
    """By its mean and variance along some axes."""
    n = float(math.prod(int(x.shape[axis]) for axis in axes))
    apart = topi.subtract(x, topi.divide(topi.sum(x, axes, keepdims=True), n))
    variance = topi.divide(topi.sum(topi.multiply(apart, apart), axes, keepdims=True), n)
    return topi.multiply(apart, topi.rsqrt(topi.add(variance, 1e-5)))


def _channel_norm(rows: int, columns: int, channels: int) -> Build:
    """A layer norm of each pixel, channels first."""

    def function(topi: Any, x: Any, g: Any, b: Any) -> Any:
        return topi.add(topi.multiply(_standardised(topi, x, [1]), g), b)

    each = (1, channels, 1, 1)
    return of_topi(function, (1, channels, rows, columns), each, each)


def _channel_softmax(rows: int, columns: int, channels: int) -> Build:
    """Of each pixel, channels first; a polynomial in place of exp, as in `_attention`."""
    return of_topi(lambda topi, x: topi.nn.fast_softmax(x, 1), (1, channels, rows, columns))


def _batch_norm(rows: int, columns: int, channels: int) -> Build:
    """Of each channel, channels last, as in training; without scale and shift."""
    return of_topi(lambda topi, x: _standardised(topi, x, [0, 1, 2]), (4, rows, columns, channels))


FUSED_KINDS: Final[Mapping[str, Kind]] = {
    "residual-nhwc": Kind(_convolved, _residual),
    "joined-nchw": Kind(_convolved, _joined),
    "excited-nchw": Kind(_convolved, _excited),
    "depthwise-relu6": Kind(_channels, _depthwise_relu6),
    "dense-hard-swish": Kind(_rows, _dense_hard_swish),
    "norm-dense": Kind(_rows, _norm_dense),
    "attention": Kind(_heads, _attention),
    "rms-norm": Kind(_table, _rms_norm),
    "unit-rows": Kind(_table, _unit_rows),
    "group-norm": Kind(_groups, _group_norm),
    "channel-means": Kind(_channels, _channel_means),
    "added-larger": Kind(_channels, _added_larger),
    "by-heads": Kind(_heads, _by_heads),
    "channel-norm": Kind(_channels, _channel_norm),
    "channel-softmax": Kind(_channels, _channel_softmax),
    "batch-norm": Kind(_channels, _batch_norm),
}
