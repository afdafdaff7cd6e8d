"""The suite's kinds in sizes that models have and the other lists lack. float32.

MB-EXP and NHWC-G32 served to make register tiles better since
(docs/design-space-log.md, "The suite's kinds in other sizes").
"""

from bench.fresh import conv2d_nchw, matmul
from bench.suite import Build
from bench.unseen import dense, of_tests

SIZES: dict[str, Build] = {
    "GMM-1000": matmul(1000, 1000, 1000),
    "GMM-odd": matmul(333, 517, 129),
    "CLASSES": matmul(256, 10, 4096),
    "EIGHT": matmul(8, 8192, 512),
    "OUTER": matmul(1024, 1024, 16),
    "GEMV-1000": dense(1, 1000, 2048),
    "VGG": of_tests("conv2d_nhwc", 1, 28, 28, 256, 512, 3, 1, 1),
    "VGG-first": of_tests("conv2d_nhwc", 1, 224, 224, 3, 64, 3, 1, 1),
    "NHWC-13": of_tests("conv2d_nhwc", 1, 13, 13, 256, 384, 3, 1, 1),
    "NHWC-5x5": of_tests("conv2d_nhwc", 1, 28, 28, 32, 64, 5, 1, 2),
    "NHWC-B8": of_tests("conv2d_nhwc", 8, 14, 14, 64, 64, 3, 1, 1),
    "NHWC-G32": of_tests("conv2d_nhwc", 1, 28, 28, 128, 128, 3, 1, 1, 1, 32),
    "DIL-4": of_tests("conv2d_nhwc", 1, 33, 33, 128, 128, 3, 1, 4, 4),
    "MB-EXP": of_tests("conv2d_nhwc", 1, 56, 56, 24, 144, 1, 1, 0),
    "NCHW-7": conv2d_nchw(512, 7, 7, 512, 3, 1, 1),
    "NCHW-56": conv2d_nchw(64, 56, 56, 64, 3, 1, 1),
    "NCHW-1x1": conv2d_nchw(256, 14, 14, 1024, 1, 1, 0),
    "DEP-14": of_tests("depthwise_conv2d_nhwc", 1, 14, 14, 672, 5, 2, 2),
    "DEP-40": of_tests("depthwise_conv2d_nhwc", 1, 57, 57, 40, 3, 1, 1),
    "DEP-24": of_tests("depthwise_conv2d_nhwc", 1, 112, 112, 24, 3, 2, 1),
    "TBG-197": of_tests("transpose_batch_matmul", 1, 197, 3, 64),
    "T2D-28": of_tests("conv2d_transpose_nhwc", 1, 28, 28, 64, 32, 3, 2, 1),
    "AUDIO": of_tests("conv1d_nlc", 1, 3000, 80, 384, 3, 1, 1),
    "SFM-100": of_tests("softmax_mn", 4096, 100),
}
