"""Kinds of functions whose sizes are drawn at random, and how each is built. float32."""

from collections.abc import Callable, Mapping
from typing import Final

from bench import fresh, unseen
from bench.drawing import Dice, Kind, image
from bench.fused import of_topi
from bench.fused_kinds import FUSED_KINDS
from bench.suite import Build


def _window(dice: Dice) -> tuple[int, int, int]:
    """Taps in a line, stride, padding."""
    taps = dice.of(1, 3, 3, 3, 5, 7)
    return taps, dice.of(1, 1, 2), dice.of(taps // 2, taps // 2, 0)


def _conv2d(dice: Dice) -> tuple[int, ...]:
    channels, filters = dice.extent(3, 512), dice.extent(8, 512)
    return dice.of(1, 1, 1, 2, 8), *image(dice), channels, filters, *_window(dice)


def _dilated(dice: Dice) -> tuple[int, ...]:
    """(H, W, CI, CO, dilation)."""
    return *image(dice), dice.extent(8, 256), dice.extent(8, 256), dice.of(2, 3, 4)


def _grouped(dice: Dice) -> tuple[int, ...]:
    """(H, W, channels of a group, filters of a group, groups, stride)."""
    sizes = dice.extent(2, 48), dice.extent(2, 48), dice.of(2, 3, 4, 8, 16, 32)
    return *image(dice), *sizes, dice.of(1, 1, 2)


def _depthwise(dice: Dice) -> tuple[int, ...]:
    """(H, W, C, kernel, stride)."""
    return *image(dice), dice.extent(8, 768), dice.of(3, 3, 5, 7), dice.of(1, 1, 2)


def _transposed(dice: Dice) -> tuple[int, ...]:
    """(H, W, CI, CO, kernel, stride, padding)."""
    image = dice.extent(4, 64), dice.extent(4, 64)
    return *image, dice.extent(8, 256), dice.extent(1, 256), *dice.of((2, 2, 0), (3, 2, 1), (4, 2, 1))


def _line(dice: Dice) -> tuple[int, ...]:
    """(length, CI, CO, taps, stride, padding)."""
    taps, stride, padding = _window(dice)
    return dice.extent(32, 4096), dice.extent(4, 512), dice.extent(8, 512), taps, stride, padding


def _volume(dice: Dice) -> tuple[int, ...]:
    """(depth, size, CI, CO, kernel, stride)."""
    sizes = dice.extent(3, 32), dice.extent(5, 56)
    return *sizes, dice.extent(3, 96), dice.extent(8, 96), dice.of(1, 3, 3), dice.of(1, 1, 2)


def _product(dice: Dice) -> tuple[int, ...]:
    """(rows, columns, depth)."""
    return dice.extent(1, 2048), dice.extent(8, 4096), dice.extent(1, 4096)


def _batched(dice: Dice) -> tuple[int, ...]:
    """(batch, rows, columns, depth)."""
    return dice.extent(2, 64), dice.extent(1, 512), dice.extent(8, 512), dice.extent(8, 256)


def _pooled(dice: Dice) -> tuple[int, ...]:
    """(H, W, C, window, stride, padding)."""
    return *image(dice), dice.extent(8, 512), *dice.of((2, 2, 0), (2, 1, 0), (3, 1, 1), (3, 2, 1), (5, 1, 2))


def _table(dice: Dice) -> tuple[int, ...]:
    """(rows, columns)."""
    return dice.extent(2, 4096), dice.extent(8, 4096)


def _maps(dice: Dice) -> tuple[int, ...]:
    """(N, C, H, W)."""
    return dice.of(1, 1, 4), dice.extent(8, 768), *image(dice)


def _conv2d_nchw(*sizes: int) -> Build:
    batch, rows, columns, channels, filters, taps, stride, padding = sizes
    return of_topi(
        lambda topi, x, w, b: topi.nn.relu(topi.add(topi.nn.conv2d_nchw(x, w, stride, padding, 1), b)),
        *((batch, channels, rows, columns), (filters, channels, taps, taps), (1, filters, 1, 1)),
    )


def _dilated_nhwc(rows: int, columns: int, channels: int, filters: int, dilation: int) -> Build:
    return unseen.of_tests("conv2d_nhwc", 1, rows, columns, channels, filters, 3, 1, dilation, dilation)


def _grouped_nhwc(*sizes: int) -> Build:
    rows, columns, channels, filters, groups, stride = sizes
    shape = (1, rows, columns, groups * channels, groups * filters, 3, stride, 1, 1, groups)
    return unseen.of_tests("conv2d_nhwc", *shape)


def _grouped_nchw(*sizes: int) -> Build:
    rows, columns, channels, filters, groups, stride = sizes
    return of_topi(
        lambda topi, x, w: topi.nn.group_conv2d_nchw(x, w, stride, 1, 1, groups, "float32"),
        *((1, groups * channels, rows, columns), (groups * filters, channels, 3, 3)),
    )


def _depthwise_nhwc(rows: int, columns: int, channels: int, taps: int, stride: int) -> Build:
    return unseen.of_tests("depthwise_conv2d_nhwc", 1, rows, columns, channels, taps, stride, taps // 2)


def _depthwise_nchw(rows: int, columns: int, channels: int, taps: int, stride: int) -> Build:
    return fresh.depthwise_nchw(channels, rows, columns, taps, stride, taps // 2)


def _transposed_nchw(*sizes: int) -> Build:
    rows, columns, channels, filters, taps, stride, padding = sizes
    return of_topi(
        lambda topi, x, w: topi.nn.conv2d_transpose_nchw(
            x, w, (stride, stride), (padding, padding), "float32", (0, 0)
        ),
        *((1, channels, rows, columns), (channels, filters, taps, taps)),
    )


def _line_ncw(*sizes: int) -> Build:
    length, channels, filters, taps, stride, padding = sizes
    return of_topi(
        lambda topi, x, w: topi.nn.conv1d(x, w, stride, padding, 1, data_layout="NCW"),
        *((1, channels, length), (filters, channels, taps)),
    )


def _volume_ndhwc(*sizes: int) -> Build:
    depth, size, channels, filters, taps, stride = sizes
    return unseen.of_tests("conv3d_ndhwc", 1, depth, size, size, channels, filters, taps, stride, taps // 2)


def _dense_relu(rows: int, columns: int, depth: int) -> Build:
    return of_topi(
        lambda topi, x, w, b: topi.nn.relu(topi.nn.dense(x, w, b)),
        (rows, depth),
        (columns, depth),
        (columns,),
    )


def _scores(batch: int, rows: int, columns: int, depth: int) -> Build:
    return of_topi(
        lambda topi, a, b: topi.nn.batch_matmul(a, b), (batch, rows, depth), (batch, columns, depth)
    )


def _weighted(batch: int, rows: int, columns: int, depth: int) -> Build:
    return of_topi(
        lambda topi, a, b: topi.nn.batch_matmul(a, b, transpose_b=False),
        *((batch, rows, depth), (batch, depth, columns)),
    )


def _pooled_as(kind: str, layout: str) -> Callable[..., Build]:
    def build(rows: int, columns: int, channels: int, *window: int) -> Build:
        shape = (1, channels, rows, columns) if layout == "NCHW" else (1, rows, columns, channels)
        return fresh.pool(kind, layout, shape, *window)

    return build


def _softmax(rows: int, columns: int) -> Build:
    return unseen.of_tests("softmax_mn", rows, columns)


def _column_sums(rows: int, columns: int) -> Build:
    return of_topi(lambda topi, x: topi.sum(x, 0), (rows, columns))


def _row_maxima(rows: int, columns: int) -> Build:
    return of_topi(lambda topi, x: topi.max(x, 1), (rows, columns))


def _turned(rows: int, columns: int) -> Build:
    return of_topi(lambda topi, x: topi.transpose(x), (rows, columns))


def _global_mean(*shape: int) -> Build:
    return of_topi(lambda topi, x: topi.nn.global_pool(x, "avg", "NCHW"), shape)


def _scaled_relu(*shape: int) -> Build:
    channels = (1, shape[1], 1, 1)
    return of_topi(
        lambda topi, x, g, b: topi.nn.relu(topi.add(topi.multiply(x, g), b)), shape, channels, channels
    )


def _larger(*shape: int) -> Build:
    rows, columns = shape[2:]
    size = (2 * rows, 2 * columns)
    return of_topi(
        lambda topi, x: topi.image.resize2d(x, (0.0,) * 4, size, "NCHW", "linear", "half_pixel"), shape
    )


KINDS: Final[Mapping[str, Kind]] = {
    "conv2d-nhwc": Kind(_conv2d, lambda *sizes: unseen.of_tests("conv2d_nhwc", *sizes)),
    "conv2d-nchw": Kind(_conv2d, _conv2d_nchw),
    "dilated-nhwc": Kind(_dilated, _dilated_nhwc),
    "grouped-nhwc": Kind(_grouped, _grouped_nhwc),
    "grouped-nchw": Kind(_grouped, _grouped_nchw),
    "depthwise-nhwc": Kind(_depthwise, _depthwise_nhwc),
    "depthwise-nchw": Kind(_depthwise, _depthwise_nchw),
    "transposed-nhwc": Kind(_transposed, lambda *sizes: unseen.of_tests("conv2d_transpose_nhwc", 1, *sizes)),
    "transposed-nchw": Kind(_transposed, _transposed_nchw),
    "conv1d-nlc": Kind(_line, lambda *sizes: unseen.of_tests("conv1d_nlc", 1, *sizes)),
    "conv1d-ncw": Kind(_line, _line_ncw),
    "conv3d-ndhwc": Kind(_volume, _volume_ndhwc),
    "matmul": Kind(_product, fresh.matmul),
    "matmul-tn": Kind(_product, lambda *sizes: fresh.matmul(*sizes, turned=True)),
    "dense": Kind(_product, unseen.dense),
    "dense-relu": Kind(_product, _dense_relu),
    "scores": Kind(_batched, _scores),
    "batch-matmul": Kind(_batched, _weighted),
    "max-nchw": Kind(_pooled, _pooled_as("max", "NCHW")),
    "avg-nhwc": Kind(_pooled, _pooled_as("avg", "NHWC")),
    "avg-nchw": Kind(_pooled, _pooled_as("avg", "NCHW")),
    "softmax": Kind(_table, _softmax),
    "layer-norm": Kind(_table, unseen.layer_norm),
    "column-sums": Kind(_table, _column_sums),
    "row-maxima": Kind(_table, _row_maxima),
    "turned": Kind(_table, _turned),
    "global-mean": Kind(_maps, _global_mean),
    "scaled-relu": Kind(_maps, _scaled_relu),
    "larger": Kind(_maps, _larger),
    **FUSED_KINDS,
}
