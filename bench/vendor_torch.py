"""The suite's workloads by PyTorch on a CPU, as its users write them, in eager mode.

`python -m bench.vendor_torch ORDER ANSWER` is the process that times one, maybe in another environment's
Python. Images and filters lie as PyTorch keeps them, with channels first or last, arranged before the timing;
the faster of the two counts.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from bench.torch_convolutions import (
    Prepare,
    conv1d,
    conv1d_ncw_relu,
    conv1d_transposed_ncw,
    conv2d_blocked,
    conv2d_bn_relu,
    conv2d_nchw,
    conv2d_nchw_bias_relu,
    conv2d_nchw_relu,
    conv2d_nhwc,
    conv2d_transposed,
    conv2d_transposed_nchw,
    conv2d_transposed_nchw_relu,
    conv3d,
    depthwise,
    depthwise_3d,
    depthwise_dilated,
    depthwise_nchw,
    residual,
)
from bench.vendor_timing import Array, Call, answer


def _dense(torch: Any, data: Any, weight: Any, bias: Any) -> list[Call]:
    return [lambda: torch.nn.functional.linear(data, weight, bias)]


def _dense_relu(torch: Any, data: Any, weight: Any, bias: Any) -> list[Call]:
    return [lambda: torch.nn.functional.linear(data, weight, bias).relu_()]


def _dense_gelu(torch: Any, data: Any, weight: Any, bias: Any) -> list[Call]:
    functional = torch.nn.functional
    return [lambda: functional.gelu(functional.linear(data, weight, bias))]


def _product(torch: Any, a: Any, b: Any) -> list[Call]:
    return [lambda: torch.matmul(a, b)]


def _attention(torch: Any, query: Any, value: Any) -> list[Call]:
    return [lambda: torch.matmul(query.permute(0, 2, 1, 3), value.permute(0, 2, 3, 1))]


def _product_bias_relu(torch: Any, a: Any, b: Any, bias: Any) -> list[Call]:
    return [lambda: torch.matmul(a, b).add_(bias).relu_()]


def _softmax(torch: Any, a: Any) -> list[Call]:
    return [lambda: torch.softmax(a, dim=1)]


def _scores(torch: Any, a: Any, b: Any) -> list[Call]:
    return [lambda: torch.matmul(a, b.transpose(1, 2))]


def _layer_norm(torch: Any, data: Any, scale: Any, shift: Any) -> list[Call]:
    return [lambda: torch.nn.functional.layer_norm(data, scale.shape, scale, shift)]


def _product_turned(torch: Any, a: Any, b: Any) -> list[Call]:
    return [lambda: torch.matmul(a.t(), b)]


def _max_pool(torch: Any, data: Any, *, stride: int = 2) -> list[Call]:
    pool = torch.nn.functional.max_pool2d
    return [partial(pool, image, 3, stride, 1) for image in _formats(torch, data)]


def _mean_pool(torch: Any, data: Any) -> list[Call]:
    """Padding counts as zeros."""
    return _mean_pool_nchw(torch, data.permute(0, 3, 1, 2), size=3)


def _mean_pool_nchw(torch: Any, image: Any, *, size: int) -> list[Call]:
    pool = torch.nn.functional.avg_pool2d
    return [partial(pool, each, size, 1, 1) for each in _formats(torch, image)]


def _formats(torch: Any, image: Any) -> list[Any]:
    """Channels first, and last."""
    formats = (torch.contiguous_format, torch.channels_last)
    return [image.contiguous(memory_format=order) for order in formats]


def _global_mean(torch: Any, data: Any) -> list[Call]:
    image, pool = data.permute(0, 3, 1, 2), torch.nn.functional.adaptive_avg_pool2d
    return [partial(pool, each, 1) for each in _formats(torch, image)]


def _masked_scores(torch: Any, a: Any, b: Any, mask: Any) -> list[Call]:
    scale = a.shape[2] ** -0.5
    return [lambda: torch.matmul(a, b.transpose(1, 2)).mul_(scale).add_(mask)]


def _batch_norm_relu(torch: Any, data: Any, scale: Any, shift: Any) -> list[Call]:
    mean, variance = torch.zeros_like(scale), torch.ones_like(scale)
    normalise = torch.nn.functional.batch_norm
    return [lambda: normalise(data, mean, variance, scale, shift).relu_()]


def _channels_first(torch: Any, data: Any) -> list[Call]:
    return [lambda: torch.permute(data, (0, 3, 1, 2)).contiguous()]


def _column_sums(torch: Any, data: Any) -> list[Call]:
    return [lambda: torch.sum(data, 0)]


def _batch_sums(torch: Any, data: Any) -> list[Call]:
    return [lambda: torch.sum(data, (0, 1, 2))]


def _global_mean_nchw(torch: Any, data: Any) -> list[Call]:
    return [lambda: torch.nn.functional.adaptive_avg_pool2d(data, 1)]


def _rms_norm(torch: Any, data: Any, scale: Any) -> list[Call]:
    return [lambda: torch.nn.functional.rms_norm(data, scale.shape, scale)]


def _instance_norm(torch: Any, data: Any, scale: Any, shift: Any) -> list[Call]:
    """As one group for each channel as well, which is faster."""
    functional = torch.nn.functional
    return [
        lambda: functional.instance_norm(data, None, None, scale, shift),
        lambda: functional.group_norm(data, len(scale), scale, shift),
    ]


def _row_maximum(torch: Any, data: Any) -> list[Call]:
    return [lambda: torch.amax(data, 1)]


def _relu_dense(torch: Any, data: Any, weight: Any) -> list[Call]:
    return [lambda: torch.nn.functional.linear(torch.relu(data), weight)]


def _norm_dense(torch: Any, data: Any, scale: Any, shift: Any, weight: Any) -> list[Call]:
    functional = torch.nn.functional
    return [lambda: functional.linear(functional.layer_norm(data, scale.shape, scale, shift), weight)]


def _attention_of_rows(torch: Any, queries: Any, keys: Any, values: Any) -> list[Call]:
    """Its fused function scales by one here; values lie turned in the module."""
    attend, turned = torch.nn.functional.scaled_dot_product_attention, values.transpose(1, 2)
    kept = turned.contiguous()
    return [
        lambda: attend(queries, keys, kept, scale=1.0),
        lambda: torch.bmm(torch.softmax(torch.bmm(queries, keys.transpose(1, 2)), -1), turned),
    ]


def _masked_softmax(torch: Any, scores: Any, mask: Any) -> list[Call]:
    return [lambda: torch.softmax(torch.add(mask, scores, alpha=0.125), -1)]


def _gates(torch: Any, x: Any, h: Any, w: Any, u: Any) -> list[Call]:
    linear = torch.nn.functional.linear
    return [lambda: linear(x, w).add_(linear(h, u)).tanh_()]


def _shuffled(torch: Any, data: Any) -> list[Call]:
    return [lambda: torch.channel_shuffle(data, 2)]


def _merged(torch: Any, data: Any) -> list[Call]:
    places = [(row, column) for column in (0, 1) for row in (0, 1)]
    return [lambda: torch.cat([data[:, row::2, column::2] for row, column in places], -1)]


def _turned(torch: Any, data: Any) -> list[Call]:
    return [lambda: torch.t(data).contiguous()]


def _mean(torch: Any, data: Any) -> list[Call]:
    return [lambda: torch.mean(data)]


def _variances(torch: Any, data: Any) -> list[Call]:
    return [lambda: torch.var(data, (0, 2, 3), correction=0)]


def _row_argmax(torch: Any, data: Any) -> list[Call]:
    return [lambda: torch.argmax(data, 1)]


def _larger(mode: str) -> Prepare:
    def prepare(torch: Any, data: Any) -> list[Call]:
        resize = torch.nn.functional.interpolate
        return [partial(resize, each, scale_factor=2, mode=mode) for each in _formats(torch, data)]

    return prepare


#: By the names of bench.workloads. A capsule convolution has no function of its own.
FUNCTIONS: dict[str, Prepare] = {
    "GMM-512": _product,
    "GMM-1024": _product,
    "DENSE": _dense_gelu,
    "TBG": _attention,
    "C1D": conv1d(2, 1),
    "C2D-a": conv2d_nhwc(1, 1),
    "C2D-b": conv2d_nhwc(),
    "CBR": conv2d_bn_relu(2, 1),
    "DEP": depthwise(1),
    "GRP": conv2d_nhwc(1, 1, 1, 4),
    "SFM": _softmax,
    "RES-1": conv2d_nhwc(1, 1),
    "RES-2": conv2d_nhwc(2, 1),
    "RES-4": conv2d_nhwc(1, 1),
    "PW": conv2d_nhwc(),
    "DIL": conv2d_nhwc(1, 2, 2),
    "DENSE-odd": _dense,
    "GEMV": _dense,
    "SKINNY": _dense,
    "NCHW-3x3": conv2d_nchw_relu(1, 1),
    "NCHW-stem": conv2d_nchw_relu(2, 3),
    "NHWC-17": conv2d_nhwc(1, 1),
    "NHWC-G8": conv2d_nhwc(1, 1, 1, 8),
    "BMM-bias": _product_bias_relu,
    "GMM-prime": _product_bias_relu,
    "T2D": conv2d_transposed(2, 1),
    "T2D-odd": conv2d_transposed(2, 1),
    "T2D-NCHW": conv2d_transposed_nchw_relu(2, 1),
    "DEP-5x5": depthwise(2),
    "C3D": conv3d(1),
    "SCORES": _scores,
    "DENSE-197": _dense,
    "NORM": _layer_norm,
    "SFM-fast": _softmax,
    "GEMV-NN": _product,
    "SKINNY-NN": _product,
    "LONG-K": _product,
    "GMM-TN": _product_turned,
    "TALL": _product,
    "NCHW-PW": conv2d_nchw_bias_relu(1, 0),
    "NCHW-S2": conv2d_nchw_bias_relu(2, 1),
    "NHWC-stem": conv2d_nhwc(2, 1),
    "RESIDUAL": residual,
    "DEP-S2": depthwise(1, 2),
    "DEP-NCHW": depthwise_nchw(1),
    "POOL": _max_pool,
    "GAP": _global_mean,
    "NORM-128": _layer_norm,
    "PW-1024": conv2d_nhwc(),
    "PW-2048": conv2d_nhwc(),
    "SHORT-S2": conv2d_nhwc(2),
    "RES-S2": conv2d_nhwc(2, 1),
    "FFN": _dense,
    "NCHW-1024": conv2d_nchw_bias_relu(1, 0),
    "ATTEND": _product,
    "MASKED": _masked_scores,
    "BLOCKED": conv2d_blocked,
    "C1D-NCW": conv1d_ncw_relu,
    "DEP-7x7": depthwise(3),
    "DEP-NCHW-S2": depthwise_nchw(2),
    "BN-RELU": _batch_norm_relu,
    "TO-NCHW": _channels_first,
    "COLUMN-SUMS": _column_sums,
    "BATCH-SUMS": _batch_sums,
    "GAP-NCHW": _global_mean_nchw,
    "RMS-NORM": _rms_norm,
    "GMM-1000": _product,
    "GMM-odd": _product,
    "CLASSES": _product,
    "EIGHT": _product,
    "OUTER": _product,
    "GEMV-1000": _dense,
    "VGG": conv2d_nhwc(1, 1),
    "VGG-first": conv2d_nhwc(1, 1),
    "NHWC-13": conv2d_nhwc(1, 1),
    "NHWC-5x5": conv2d_nhwc(1, 2),
    "NHWC-B8": conv2d_nhwc(1, 1),
    "NHWC-G32": conv2d_nhwc(1, 1, 1, 32),
    "DIL-4": conv2d_nhwc(1, 4, 4),
    "MB-EXP": conv2d_nhwc(),
    "NCHW-7": conv2d_nchw_bias_relu(1, 1),
    "NCHW-56": conv2d_nchw_bias_relu(1, 1),
    "NCHW-1x1": conv2d_nchw_bias_relu(1, 0),
    "DEP-14": depthwise(2, 2),
    "DEP-40": depthwise(1),
    "DEP-24": depthwise(1, 2),
    "TBG-197": _attention,
    "T2D-28": conv2d_transposed(2, 1),
    "AUDIO": conv1d(1, 1),
    "SFM-100": _softmax,
    "NORM-500": _layer_norm,
    "NORM-100": _layer_norm,
    "INSTANCE": _instance_norm,
    "ROW-MAX": _row_maximum,
    "GAP-14": _global_mean_nchw,
    "RELU-DENSE": _relu_dense,
    "NORM-DENSE": _norm_dense,
    "ATTENTION": _attention_of_rows,
    "MASKED-SFM": _masked_softmax,
    "GATES": _gates,
    "DEP-DIL": depthwise_dilated,
    "DEP-7-14": depthwise_nchw(1, 3),
    "CNX-DW": depthwise_nchw(1, 3),
    "MB-DW-S2": depthwise_nchw(2, 2),
    "SHUFFLE": _shuffled,
    "MERGE": _merged,
    "TURN": _turned,
    "LOSS": _mean,
    "MATVEC": _dense,
    "DW-75-S2": depthwise_nchw(2),
    "DW-3D": depthwise_3d,
    "INC-1x7": conv2d_nchw_bias_relu(1, (0, 3)),
    "SKIP": conv2d_nchw_bias_relu(1, 1),
    "UP-CONV": conv2d_transposed_nchw(2, 1, 1),
    "BN-STAT": _variances,
    "ARG-MAX": _row_argmax,
    "UP-NEAR": _larger("nearest"),
    "UP-BIL": _larger("bilinear"),
    "NCHW-14": conv2d_nchw(1, 1),
    "HEAD-3": conv2d_nchw_bias_relu(1, 1),
    "GRP-12": conv2d_nhwc(1, 1, 1, 16),
    "INC-71": conv2d_nhwc(1, 0),
    "ODD-37": conv2d_nhwc(1, 1),
    "ODD-59": conv2d_nhwc(1, 1),
    "T2D-137": conv2d_transposed(2, 1),
    "T1D-39": conv1d_transposed_ncw(3, 1),
    "DIL-31": conv2d_nchw(1, 3, 3),
    "NCHW-31": conv2d_nchw_bias_relu(1, 2),
    "OUTER-777": _product,
    "AVG-53": partial(_mean_pool_nchw, size=2),
    "R-NHWC": conv2d_nhwc(2, 1),
    "R-NHWC-5x5": conv2d_nhwc(1, 2),
    "R-NCHW": conv2d_nchw_bias_relu(1, 1),
    "R-DEP": depthwise(1, 2),
    "R-DEP-NCHW": depthwise_nchw(2),
    "R-GMM": _product,
    "R-DENSE": _dense_relu,
    "R-SCORES": _scores,
    "R-T2D": conv2d_transposed(2, 0),
    "R-C1D": conv1d(1, 4),
    "R-SFM": _softmax,
    "R-C3D": conv3d(1, 2),
    "R-MAX": partial(_max_pool, stride=1),
    "R-AVG": _mean_pool,
}


def prepared(name: str, inputs: Sequence[Array], cores: int) -> list[Call]:
    """Loads PyTorch, for as many threads as `cores`."""
    import torch

    torch.set_num_threads(cores)
    torch.set_grad_enabled(False)
    return FUNCTIONS[name](torch, *[torch.from_numpy(array) for array in inputs])


if __name__ == "__main__":
    answer(prepared)
