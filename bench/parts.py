"""Parts of models as PyTorch's exporter and Relax leave them: channels first, layouts, statistics. float32.

The first seven served to write rules (docs/design-space-log.md, "What models hold"), and so did the six
before INC-71 ("Vectors of any length, and lines that are written out"); those in between did not. INC-71 and
the eight behind it served as well ("Lines that no tile divides", "What random shapes found").
"""

import math
from typing import Any

from bench.fresh import conv2d_nchw, depthwise_nchw, matmul, pool
from bench.fused import of_topi
from bench.suite import Build
from bench.unseen import of_tests


def _shuffled(topi: Any, x: Any) -> Any:
    """Channels of two groups, mixed."""
    apart = topi.transpose(topi.reshape(x, (1, 2, 58, 28, 28)), (0, 2, 1, 3, 4))
    return topi.reshape(apart, (1, 116, 28, 28))


def _merged(topi: Any, x: Any) -> Any:
    """Each two by two pixels become one of four times the channels."""
    places = [(row, column) for column in (0, 1) for row in (0, 1)]
    quarters = [topi.strided_slice(x, (0, *place, 0), (1, 56, 56, 96), (1, 2, 2, 1)) for place in places]
    return topi.concatenate(quarters, axis=3)


def _convolved(topi: Any, x: Any, w: Any, bias: Any, *, padding: int | tuple[int, int]) -> Any:
    return topi.nn.relu(topi.add(topi.nn.conv2d_nchw(x, w, 1, padding, 1), bias))


def _variances(topi: Any, x: Any) -> Any:
    """Of each channel."""
    count = float(math.prod(int(x.shape[axis]) for axis in (0, 2, 3)))
    means = topi.divide(topi.sum(x, (0, 2, 3), keepdims=True), count)
    apart = topi.subtract(x, means)
    return topi.divide(topi.sum(topi.multiply(apart, apart), (0, 2, 3)), count)


PARTS: dict[str, Build] = {
    "CNX-DW": of_topi(
        lambda topi, x, w, b: topi.add(topi.nn.depthwise_conv2d_nchw(x, w, 1, 3, 1), b),
        *((1, 96, 28, 28), (96, 1, 7, 7), (1, 96, 1, 1)),
    ),
    "MB-DW-S2": depthwise_nchw(120, 56, 56, 5, 2, 2),
    "SHUFFLE": of_topi(_shuffled, (1, 116, 28, 28)),
    "MERGE": of_topi(_merged, (1, 56, 56, 96)),
    "TURN": of_topi(lambda topi, x: topi.transpose(x), (1024, 128)),
    "LOSS": of_topi(lambda topi, x: topi.divide(topi.sum(x), float(256 * 1000)), (256, 1000)),
    "MATVEC": of_topi(lambda topi, x, w, b: topi.add(topi.nn.dense(x, w), b), (256, 512), (1, 512), (1,)),
    "DW-75-S2": depthwise_nchw(64, 75, 75, 3, 2, 1),
    "DW-3D": of_topi(
        lambda topi, x, w: topi.nn.conv3d_ncdhw(x, w, 1, 1, 1, 32), (1, 32, 8, 28, 28), (32, 1, 3, 3, 3)
    ),
    "INC-1x7": of_topi(
        lambda topi, *arrays: _convolved(topi, *arrays, padding=(0, 3)),
        *((1, 128, 17, 17), (128, 128, 1, 7), (1, 128, 1, 1)),
    ),
    "SKIP": of_topi(
        lambda topi, *arrays: _convolved(topi, *arrays, padding=1),
        *((1, 128, 32, 32), (64, 128, 3, 3), (1, 64, 1, 1)),
    ),
    "UP-CONV": of_topi(
        lambda topi, x, w: topi.nn.conv2d_transpose_nchw(x, w, (2, 2), (1, 1), "float32", (1, 1)),
        *((1, 64, 28, 28), (64, 64, 3, 3)),
    ),
    "BN-STAT": of_topi(_variances, (8, 64, 28, 28)),
    "ARG-MAX": of_topi(lambda topi, x: topi.argmax(x, axis=1), (64, 30522)),
    "UP-NEAR": of_topi(
        lambda topi, x: topi.image.resize2d(
            x, (0.0,) * 4, (32, 32), "NCHW", "nearest_neighbor", "asymmetric", "floor"
        ),
        (1, 128, 16, 16),
    ),
    "UP-BIL": of_topi(
        lambda topi, x: topi.image.resize2d(x, (0.0,) * 4, (64, 64), "NCHW", "linear", "half_pixel"),
        (1, 64, 32, 32),
    ),
    "NCHW-14": of_topi(
        lambda topi, x, w: topi.nn.conv2d_nchw(x, w, 1, 1, 1), (8, 64, 14, 14), (64, 64, 3, 3)
    ),
    "HEAD-3": conv2d_nchw(64, 48, 48, 3, 3, 1, 1),
    "GRP-12": of_tests("conv2d_nhwc", 1, 28, 28, 96, 192, 3, 1, 1, 1, 16),
    "CAP-8": of_tests("conv2d_capsule_nhwijc", 1, 7, 7, 32, 8, 3, 2, 1, 4),
    "INC-71": of_tests("conv2d_nhwc", 1, 73, 73, 80, 192, 3, 1, 0),
    "ODD-37": of_tests("conv2d_nhwc", 1, 37, 37, 96, 96, 3, 1, 1),
    "ODD-59": of_tests("conv2d_nhwc", 1, 59, 59, 32, 64, 3, 1, 1),
    "T2D-137": of_tests("conv2d_transpose_nhwc", 1, 26, 26, 122, 137, 4, 2, 1),
    "T1D-39": of_topi(
        lambda topi, x, w: topi.nn.conv1d_transpose_ncw(x, w, (3,), (1,), "float32", (0,)),
        *((1, 172, 417), (172, 39, 4)),
    ),
    "DIL-31": of_topi(
        lambda topi, x, w: topi.nn.conv2d_nchw(x, w, 1, 3, 3), (1, 104, 58, 58), (31, 104, 3, 3)
    ),
    "NCHW-31": conv2d_nchw(47, 31, 31, 23, 5, 1, 2),
    "OUTER-777": matmul(1000, 777, 1),
    "AVG-53": pool("avg", "NCHW", (1, 182, 53, 53), 2, 1, 1),
}
