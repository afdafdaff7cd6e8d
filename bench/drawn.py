"""Fourteen shapes of thirteen kinds, drawn at random. float32.

Batch, extents, channels, kernel and stride of each were drawn from lists of what models have, by a script
that is not in the project; nothing was changed for them (docs/design-space-log.md, "Shapes drawn at random").
"""

from bench.fresh import conv2d_nchw, depthwise_nchw, matmul, pool
from bench.fused import of_topi
from bench.suite import Build
from bench.unseen import of_tests

DRAWN: dict[str, Build] = {
    "R-NHWC": of_tests("conv2d_nhwc", 2, 20, 80, 320, 32, 3, 2, 1),
    "R-NHWC-5x5": of_tests("conv2d_nhwc", 1, 26, 13, 16, 100, 5, 1, 2),
    "R-NCHW": conv2d_nchw(512, 17, 75, 32, 3, 1, 1),
    "R-DEP": of_tests("depthwise_conv2d_nhwc", 1, 52, 16, 72, 3, 2, 1),
    "R-DEP-NCHW": depthwise_nchw(256, 13, 80, 3, 2, 1),
    "R-GMM": matmul(500, 63, 33),
    "R-DENSE": of_topi(
        lambda topi, x, w, b: topi.nn.relu(topi.nn.dense(x, w, b)), (500, 512), (128, 512), (128,)
    ),
    "R-SCORES": of_topi(lambda topi, a, b: topi.nn.batch_matmul(a, b), (16, 49, 64), (16, 197, 64)),
    "R-T2D": of_tests("conv2d_transpose_nhwc", 1, 14, 14, 256, 32, 4, 2, 0),
    "R-C1D": of_tests("conv1d_nlc", 1, 257, 256, 64, 9, 1, 4),
    "R-SFM": of_tests("softmax_mn", 197, 1000),
    "R-C3D": of_tests("conv3d_ndhwc", 1, 8, 7, 7, 3, 64, 3, 2, 1),
    "R-MAX": pool("max", "NCHW", (1, 24, 28, 28), 3, 1, 1),
    "R-AVG": pool("avg", "NHWC", (1, 28, 28, 24), 3, 1, 1),
}
