"""The suite's workloads by PyTorch on a CPU, as its users write them, in eager mode.

`python -m bench.vendor_torch ORDER ANSWER` is the process that times one, maybe in another environment's
Python. Images and filters lie as PyTorch keeps them, with channels first or last, arranged before the timing;
the faster of the two counts.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from bench.vendor_timing import Array, Call, answer

#: Takes torch, and the inputs as tensors in the module's layout.
Prepare = Callable[..., list[Call]]


def _conv2d_nhwc(stride: int = 1, padding: int = 0, dilation: int = 1, groups: int = 1) -> Prepare:
    def prepare(torch: Any, data: Any, weight: Any) -> list[Call]:
        convolve = torch.nn.functional.conv2d
        return [
            partial(convolve, image, filters, None, stride, padding, dilation, groups)
            for image, filters in _arranged(torch, data.permute(0, 3, 1, 2), weight.permute(3, 2, 0, 1))
        ]

    return prepare


def _conv2d_bn_relu(stride: int, padding: int) -> Prepare:
    def prepare(torch: Any, data: Any, weight: Any, bias: Any, offset: Any, scale: Any) -> list[Call]:
        offset, scale = offset.reshape(1, -1, 1, 1), scale.reshape(1, -1, 1, 1)

        def call(image: Any, filters: Any) -> Any:
            out = torch.nn.functional.conv2d(image, filters, bias, stride, padding)
            return out.mul_(scale).add_(offset).relu_()

        pairs = _arranged(torch, data.permute(0, 3, 1, 2), weight.permute(3, 2, 0, 1))
        return [partial(call, *pair) for pair in pairs]

    return prepare


def _conv2d_nchw_relu(stride: int, padding: int) -> Prepare:
    def prepare(torch: Any, data: Any, weight: Any) -> list[Call]:
        def call(image: Any, filters: Any) -> Any:
            return torch.nn.functional.conv2d(image, filters, None, stride, padding).relu_()

        return [partial(call, *pair) for pair in _arranged(torch, data, weight)]

    return prepare


def _conv2d_transposed(stride: int, padding: int) -> Prepare:
    """The filter's taps lie turned around in the module, which changes no time."""

    def prepare(torch: Any, data: Any, weight: Any) -> list[Call]:
        convolve = torch.nn.functional.conv_transpose2d
        pairs = _arranged(torch, data.permute(0, 3, 1, 2), weight.permute(2, 3, 0, 1))
        return [partial(convolve, *pair, None, stride, padding) for pair in pairs]

    return prepare


def _conv2d_transposed_nchw_relu(stride: int, padding: int) -> Prepare:
    def prepare(torch: Any, data: Any, weight: Any) -> list[Call]:
        def call(image: Any, filters: Any) -> Any:
            return torch.nn.functional.conv_transpose2d(image, filters, None, stride, padding).relu_()

        return [partial(call, *pair) for pair in _arranged(torch, data, weight)]

    return prepare


def _conv3d(padding: int) -> Prepare:
    def prepare(torch: Any, data: Any, weight: Any) -> list[Call]:
        formats = (torch.contiguous_format, torch.channels_last_3d)
        image, filters = data.permute(0, 4, 1, 2, 3), weight.permute(4, 3, 0, 1, 2)
        pairs = [[each.contiguous(memory_format=order) for each in (image, filters)] for order in formats]
        return [partial(torch.nn.functional.conv3d, *pair, None, 1, padding) for pair in pairs]

    return prepare


def _conv1d(stride: int, padding: int) -> Prepare:
    """PyTorch knows channels first alone in one dimension."""

    def prepare(torch: Any, data: Any, weight: Any) -> list[Call]:
        line, filters = data.permute(0, 2, 1).contiguous(), weight.permute(2, 1, 0).contiguous()
        convolve = torch.nn.functional.conv1d
        return [lambda: convolve(line, filters, None, stride, padding).permute(0, 2, 1)]

    return prepare


def _depthwise(padding: int, stride: int = 1) -> Prepare:
    def prepare(torch: Any, data: Any, weight: Any) -> list[Call]:
        convolve, channels = torch.nn.functional.conv2d, data.shape[3]
        pairs = _arranged(torch, data.permute(0, 3, 1, 2), weight.permute(3, 0, 1, 2))
        return [partial(convolve, *pair, None, stride, padding, 1, channels) for pair in pairs]

    return prepare


def _arranged(torch: Any, image: Any, filters: Any) -> list[tuple[Any, Any]]:
    """Both with channels first, and both with channels last: which is faster depends on the shape."""
    formats = (torch.contiguous_format, torch.channels_last)
    return [tuple(each.contiguous(memory_format=order) for each in (image, filters)) for order in formats]


def _dense(torch: Any, data: Any, weight: Any, bias: Any) -> list[Call]:
    return [lambda: torch.nn.functional.linear(data, weight, bias)]


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


def _conv2d_nchw_bias_relu(stride: int, padding: int | tuple[int, int]) -> Prepare:
    def prepare(torch: Any, data: Any, weight: Any, bias: Any) -> list[Call]:
        flat = bias.reshape(-1)

        def call(image: Any, filters: Any) -> Any:
            return torch.nn.functional.conv2d(image, filters, flat, stride, padding).relu_()

        return [partial(call, *pair) for pair in _arranged(torch, data, weight)]

    return prepare


def _residual(torch: Any, data: Any, weight: Any, bias: Any, skip: Any) -> list[Call]:
    def call(image: Any, filters: Any, added: Any) -> Any:
        return torch.nn.functional.conv2d(image, filters, bias, 1, 1).add_(added).relu_()

    formats = (torch.contiguous_format, torch.channels_last)
    tensors = (data.permute(0, 3, 1, 2), weight.permute(3, 2, 0, 1), skip.permute(0, 3, 1, 2))
    return [partial(call, *(each.contiguous(memory_format=order) for each in tensors)) for order in formats]


def _depthwise_nchw(stride: int, padding: int = 1) -> Prepare:
    def prepare(torch: Any, data: Any, weight: Any, bias: Any = None) -> list[Call]:
        convolve, channels = torch.nn.functional.conv2d, data.shape[1]
        flat = None if bias is None else bias.reshape(-1)
        pairs = _arranged(torch, data, weight)
        return [partial(convolve, *pair, flat, stride, padding, 1, channels) for pair in pairs]

    return prepare


def _max_pool(torch: Any, data: Any) -> list[Call]:
    pool = torch.nn.functional.max_pool2d
    formats = (torch.contiguous_format, torch.channels_last)
    return [partial(pool, data.contiguous(memory_format=order), 3, 2, 1) for order in formats]


def _global_mean(torch: Any, data: Any) -> list[Call]:
    image, pool = data.permute(0, 3, 1, 2), torch.nn.functional.adaptive_avg_pool2d
    formats = (torch.contiguous_format, torch.channels_last)
    return [partial(pool, image.contiguous(memory_format=order), 1) for order in formats]


def _masked_scores(torch: Any, a: Any, b: Any, mask: Any) -> list[Call]:
    scale = a.shape[2] ** -0.5
    return [lambda: torch.matmul(a, b.transpose(1, 2)).mul_(scale).add_(mask)]


def _conv2d_blocked(torch: Any, data: Any, weight: Any) -> list[Call]:
    """Blocks of channels are oneDNN's own matter here."""
    image = data.permute(0, 1, 4, 2, 3).flatten(1, 2)
    filters = weight.permute(0, 5, 1, 4, 2, 3).flatten(2, 3).flatten(0, 1)
    convolve = torch.nn.functional.conv2d
    return [partial(convolve, *pair, None, 1, 1) for pair in _arranged(torch, image, filters)]


def _conv1d_ncw_relu(torch: Any, data: Any, weight: Any) -> list[Call]:
    return [lambda: torch.nn.functional.conv1d(data, weight, None, 1, 2, 2).relu_()]


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


def _depthwise_dilated(torch: Any, data: Any, weight: Any) -> list[Call]:
    convolve, groups = torch.nn.functional.conv2d, weight.shape[2]
    return [
        partial(convolve, image, filters, None, 1, 2, 2, groups)
        for image, filters in _arranged(torch, data.permute(0, 3, 1, 2), weight.permute(2, 3, 0, 1))
    ]


def _shuffled(torch: Any, data: Any) -> list[Call]:
    return [lambda: torch.channel_shuffle(data, 2)]


def _merged(torch: Any, data: Any) -> list[Call]:
    places = [(row, column) for column in (0, 1) for row in (0, 1)]
    return [lambda: torch.cat([data[:, row::2, column::2] for row, column in places], -1)]


def _turned(torch: Any, data: Any) -> list[Call]:
    return [lambda: torch.t(data).contiguous()]


def _mean(torch: Any, data: Any) -> list[Call]:
    return [lambda: torch.mean(data)]


def _depthwise_3d(torch: Any, data: Any, weight: Any) -> list[Call]:
    return [lambda: torch.nn.functional.conv3d(data, weight, None, 1, 1, 1, data.shape[1])]


def _conv2d_transposed_nchw(stride: int, padding: int, more: int) -> Prepare:
    def prepare(torch: Any, data: Any, weight: Any) -> list[Call]:
        convolve = torch.nn.functional.conv_transpose2d
        return [
            partial(convolve, *pair, None, stride, padding, more) for pair in _arranged(torch, data, weight)
        ]

    return prepare


def _variances(torch: Any, data: Any) -> list[Call]:
    return [lambda: torch.var(data, (0, 2, 3), correction=0)]


def _row_argmax(torch: Any, data: Any) -> list[Call]:
    return [lambda: torch.argmax(data, 1)]


#: By the names of bench.workloads. A capsule convolution has no function of its own.
FUNCTIONS: dict[str, Prepare] = {
    "GMM-512": _product,
    "GMM-1024": _product,
    "DENSE": _dense_gelu,
    "TBG": _attention,
    "C1D": _conv1d(2, 1),
    "C2D-a": _conv2d_nhwc(1, 1),
    "C2D-b": _conv2d_nhwc(),
    "CBR": _conv2d_bn_relu(2, 1),
    "DEP": _depthwise(1),
    "GRP": _conv2d_nhwc(1, 1, 1, 4),
    "SFM": _softmax,
    "RES-1": _conv2d_nhwc(1, 1),
    "RES-2": _conv2d_nhwc(2, 1),
    "RES-4": _conv2d_nhwc(1, 1),
    "PW": _conv2d_nhwc(),
    "DIL": _conv2d_nhwc(1, 2, 2),
    "DENSE-odd": _dense,
    "GEMV": _dense,
    "SKINNY": _dense,
    "NCHW-3x3": _conv2d_nchw_relu(1, 1),
    "NCHW-stem": _conv2d_nchw_relu(2, 3),
    "NHWC-17": _conv2d_nhwc(1, 1),
    "NHWC-G8": _conv2d_nhwc(1, 1, 1, 8),
    "BMM-bias": _product_bias_relu,
    "GMM-prime": _product_bias_relu,
    "T2D": _conv2d_transposed(2, 1),
    "T2D-odd": _conv2d_transposed(2, 1),
    "T2D-NCHW": _conv2d_transposed_nchw_relu(2, 1),
    "DEP-5x5": _depthwise(2),
    "C3D": _conv3d(1),
    "SCORES": _scores,
    "DENSE-197": _dense,
    "NORM": _layer_norm,
    "SFM-fast": _softmax,
    "GEMV-NN": _product,
    "SKINNY-NN": _product,
    "LONG-K": _product,
    "GMM-TN": _product_turned,
    "TALL": _product,
    "NCHW-PW": _conv2d_nchw_bias_relu(1, 0),
    "NCHW-S2": _conv2d_nchw_bias_relu(2, 1),
    "NHWC-stem": _conv2d_nhwc(2, 1),
    "RESIDUAL": _residual,
    "DEP-S2": _depthwise(1, 2),
    "DEP-NCHW": _depthwise_nchw(1),
    "POOL": _max_pool,
    "GAP": _global_mean,
    "NORM-128": _layer_norm,
    "PW-1024": _conv2d_nhwc(),
    "PW-2048": _conv2d_nhwc(),
    "SHORT-S2": _conv2d_nhwc(2),
    "RES-S2": _conv2d_nhwc(2, 1),
    "FFN": _dense,
    "NCHW-1024": _conv2d_nchw_bias_relu(1, 0),
    "ATTEND": _product,
    "MASKED": _masked_scores,
    "BLOCKED": _conv2d_blocked,
    "C1D-NCW": _conv1d_ncw_relu,
    "DEP-7x7": _depthwise(3),
    "DEP-NCHW-S2": _depthwise_nchw(2),
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
    "VGG": _conv2d_nhwc(1, 1),
    "VGG-first": _conv2d_nhwc(1, 1),
    "NHWC-13": _conv2d_nhwc(1, 1),
    "NHWC-5x5": _conv2d_nhwc(1, 2),
    "NHWC-B8": _conv2d_nhwc(1, 1),
    "NHWC-G32": _conv2d_nhwc(1, 1, 1, 32),
    "DIL-4": _conv2d_nhwc(1, 4, 4),
    "MB-EXP": _conv2d_nhwc(),
    "NCHW-7": _conv2d_nchw_bias_relu(1, 1),
    "NCHW-56": _conv2d_nchw_bias_relu(1, 1),
    "NCHW-1x1": _conv2d_nchw_bias_relu(1, 0),
    "DEP-14": _depthwise(2, 2),
    "DEP-40": _depthwise(1),
    "DEP-24": _depthwise(1, 2),
    "TBG-197": _attention,
    "T2D-28": _conv2d_transposed(2, 1),
    "AUDIO": _conv1d(1, 1),
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
    "DEP-DIL": _depthwise_dilated,
    "DEP-7-14": _depthwise_nchw(1, 3),
    "CNX-DW": _depthwise_nchw(1, 3),
    "MB-DW-S2": _depthwise_nchw(2, 2),
    "SHUFFLE": _shuffled,
    "MERGE": _merged,
    "TURN": _turned,
    "LOSS": _mean,
    "MATVEC": _dense,
    "DW-75-S2": _depthwise_nchw(2),
    "DW-3D": _depthwise_3d,
    "INC-1x7": _conv2d_nchw_bias_relu(1, (0, 3)),
    "SKIP": _conv2d_nchw_bias_relu(1, 1),
    "UP-CONV": _conv2d_transposed_nchw(2, 1, 1),
    "BN-STAT": _variances,
    "ARG-MAX": _row_argmax,
}


def prepared(name: str, inputs: Sequence[Array], cores: int) -> list[Call]:
    """Loads PyTorch, for as many threads as `cores`."""
    import torch

    torch.set_num_threads(cores)
    torch.set_grad_enabled(False)
    return FUNCTIONS[name](torch, *[torch.from_numpy(array) for array in inputs])


if __name__ == "__main__":
    answer(prepared)
