"""What is no convolution by PyTorch, as its users write it, in eager mode."""

from functools import partial
from typing import Any

from bench.torch_convolutions import Prepare
from bench.vendor_timing import Call


def dense(torch: Any, data: Any, weight: Any, bias: Any) -> list[Call]:
    return [lambda: torch.nn.functional.linear(data, weight, bias)]


def dense_relu(torch: Any, data: Any, weight: Any, bias: Any) -> list[Call]:
    return [lambda: torch.nn.functional.linear(data, weight, bias).relu_()]


def dense_gelu(torch: Any, data: Any, weight: Any, bias: Any) -> list[Call]:
    functional = torch.nn.functional
    return [lambda: functional.gelu(functional.linear(data, weight, bias))]


def product(torch: Any, a: Any, b: Any) -> list[Call]:
    return [lambda: torch.matmul(a, b)]


def attention(torch: Any, query: Any, value: Any) -> list[Call]:
    return [lambda: torch.matmul(query.permute(0, 2, 1, 3), value.permute(0, 2, 3, 1))]


def product_bias_relu(torch: Any, a: Any, b: Any, bias: Any) -> list[Call]:
    return [lambda: torch.matmul(a, b).add_(bias).relu_()]


def softmax(torch: Any, a: Any) -> list[Call]:
    return [lambda: torch.softmax(a, dim=1)]


def scores(torch: Any, a: Any, b: Any) -> list[Call]:
    return [lambda: torch.matmul(a, b.transpose(1, 2))]


def layer_norm(torch: Any, data: Any, scale: Any, shift: Any) -> list[Call]:
    return [lambda: torch.nn.functional.layer_norm(data, scale.shape, scale, shift)]


def product_turned(torch: Any, a: Any, b: Any) -> list[Call]:
    return [lambda: torch.matmul(a.t(), b)]


def pool2d(kind: str, layout: str, size: int, stride: int, padding: int) -> Prepare:
    """Of "max" or "avg", whose padding counts as zeros; NCHW or NHWC."""

    def prepare(torch: Any, data: Any) -> list[Call]:
        pool = getattr(torch.nn.functional, f"{kind}_pool2d")
        image = data if layout == "NCHW" else data.permute(0, 3, 1, 2)
        return [partial(pool, each, size, stride, padding) for each in formats(torch, image)]

    return prepare


def formats(torch: Any, image: Any) -> list[Any]:
    """Channels first, and last."""
    orders = (torch.contiguous_format, torch.channels_last)
    return [image.contiguous(memory_format=order) for order in orders]


def global_mean(torch: Any, data: Any) -> list[Call]:
    image, pool = data.permute(0, 3, 1, 2), torch.nn.functional.adaptive_avg_pool2d
    return [partial(pool, each, 1) for each in formats(torch, image)]


def masked_scores(torch: Any, a: Any, b: Any, mask: Any) -> list[Call]:
    scale = a.shape[2] ** -0.5
    return [lambda: torch.matmul(a, b.transpose(1, 2)).mul_(scale).add_(mask)]


def batch_norm_relu(torch: Any, data: Any, scale: Any, shift: Any) -> list[Call]:
    mean, variance = torch.zeros_like(scale), torch.ones_like(scale)
    normalise = torch.nn.functional.batch_norm
    return [lambda: normalise(data, mean, variance, scale, shift).relu_()]


def channels_first(torch: Any, data: Any) -> list[Call]:
    return [lambda: torch.permute(data, (0, 3, 1, 2)).contiguous()]


def column_sums(torch: Any, data: Any) -> list[Call]:
    return [lambda: torch.sum(data, 0)]


def batch_sums(torch: Any, data: Any) -> list[Call]:
    return [lambda: torch.sum(data, (0, 1, 2))]


def global_mean_nchw(torch: Any, data: Any) -> list[Call]:
    return [lambda: torch.nn.functional.adaptive_avg_pool2d(data, 1)]


def rms_norm(torch: Any, data: Any, scale: Any) -> list[Call]:
    return [lambda: torch.nn.functional.rms_norm(data, scale.shape, scale)]


def instance_norm(torch: Any, data: Any, scale: Any, shift: Any) -> list[Call]:
    """As one group for each channel as well, which is faster."""
    functional = torch.nn.functional
    return [
        lambda: functional.instance_norm(data, None, None, scale, shift),
        lambda: functional.group_norm(data, len(scale), scale, shift),
    ]


def row_maximum(torch: Any, data: Any) -> list[Call]:
    return [lambda: torch.amax(data, 1)]


def relu_dense(torch: Any, data: Any, weight: Any) -> list[Call]:
    return [lambda: torch.nn.functional.linear(torch.relu(data), weight)]


def norm_dense(torch: Any, data: Any, scale: Any, shift: Any, weight: Any) -> list[Call]:
    functional = torch.nn.functional
    return [lambda: functional.linear(functional.layer_norm(data, scale.shape, scale, shift), weight)]


def attention_of_rows(torch: Any, queries: Any, keys: Any, values: Any) -> list[Call]:
    """Its fused function scales by one here; values lie turned in the module."""
    attend, turned = torch.nn.functional.scaled_dot_product_attention, values.transpose(1, 2)
    kept = turned.contiguous()
    return [
        lambda: attend(queries, keys, kept, scale=1.0),
        lambda: torch.bmm(torch.softmax(torch.bmm(queries, keys.transpose(1, 2)), -1), turned),
    ]


def masked_softmax(torch: Any, scores: Any, mask: Any) -> list[Call]:
    return [lambda: torch.softmax(torch.add(mask, scores, alpha=0.125), -1)]


def gates(torch: Any, x: Any, h: Any, w: Any, u: Any) -> list[Call]:
    linear = torch.nn.functional.linear
    return [lambda: linear(x, w).add_(linear(h, u)).tanh_()]


def shuffled(torch: Any, data: Any) -> list[Call]:
    return [lambda: torch.channel_shuffle(data, 2)]


def merged(torch: Any, data: Any) -> list[Call]:
    places = [(row, column) for column in (0, 1) for row in (0, 1)]
    return [lambda: torch.cat([data[:, row::2, column::2] for row, column in places], -1)]


def turned(torch: Any, data: Any) -> list[Call]:
    return [lambda: torch.t(data).contiguous()]


def mean(torch: Any, data: Any) -> list[Call]:
    return [lambda: torch.mean(data)]


def variances(torch: Any, data: Any) -> list[Call]:
    return [lambda: torch.var(data, (0, 2, 3), correction=0)]


def row_argmax(torch: Any, data: Any) -> list[Call]:
    return [lambda: torch.argmax(data, 1)]


def larger(mode: str) -> Prepare:
    def prepare(torch: Any, data: Any) -> list[Call]:
        resize = torch.nn.functional.interpolate
        return [partial(resize, each, scale_factor=2, mode=mode) for each in formats(torch, data)]

    return prepare


def scaled_relu(torch: Any, data: Any, scale: Any, shift: Any) -> list[Call]:
    """As one product and sum, and as a batch normalisation of what has no mean."""
    return [
        lambda: torch.addcmul(shift, data, scale).relu_(),
        *batch_norm_relu(torch, data, scale.reshape(-1), shift.reshape(-1)),
    ]


def dense_hard_swish(torch: Any, data: Any, weight: Any, bias: Any) -> list[Call]:
    functional = torch.nn.functional
    return [lambda: functional.hardswish(functional.linear(data, weight, bias), inplace=True)]


def unit_rows(torch: Any, data: Any) -> list[Call]:
    return [lambda: torch.nn.functional.normalize(data, dim=1)]


def group_norm(groups: int) -> Prepare:
    def prepare(torch: Any, data: Any, scale: Any, shift: Any) -> list[Call]:
        normalise = torch.nn.functional.group_norm
        return [partial(normalise, each, groups, scale, shift) for each in formats(torch, data)]

    return prepare


def channel_means(torch: Any, data: Any) -> list[Call]:
    return [partial(torch.mean, each, 1, keepdim=True) for each in formats(torch, data)]


def channel_norm(torch: Any, data: Any, scale: Any, shift: Any) -> list[Call]:
    def call(image: Any) -> Any:
        pixels = image.permute(0, 2, 3, 1)
        normalised = torch.nn.functional.layer_norm(
            pixels, pixels.shape[-1:], scale.flatten(), shift.flatten()
        )
        return normalised.permute(0, 3, 1, 2)

    return [partial(call, each) for each in formats(torch, data)]


def channel_softmax(torch: Any, data: Any) -> list[Call]:
    return [partial(torch.softmax, each, dim=1) for each in formats(torch, data)]


def batch_norm(torch: Any, data: Any) -> list[Call]:
    normalise = partial(torch.nn.functional.batch_norm, running_mean=None, running_var=None, training=True)
    return [partial(normalise, each) for each in formats(torch, data.permute(0, 3, 1, 2))]


def added_larger(torch: Any, data: Any, other: Any) -> list[Call]:
    resize = torch.nn.functional.interpolate

    def call(small: Any, large: Any) -> Any:
        return resize(small, scale_factor=2, mode="nearest").add_(large)

    pairs = zip(formats(torch, data), formats(torch, other), strict=True)
    return [partial(call, *pair) for pair in pairs]


def by_heads(heads: int) -> Prepare:
    def prepare(torch: Any, data: Any, bias: Any) -> list[Call]:
        shape = (data.shape[0], heads, -1)
        return [lambda: torch.add(data, bias).view(shape).transpose(0, 1).contiguous()]

    return prepare
