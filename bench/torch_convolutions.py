"""Convolutions by PyTorch: channels first and last, arranged before the timing; the faster counts."""

from collections.abc import Callable
from functools import partial
from typing import Any

from bench.vendor_timing import Call

#: Takes torch, and the inputs as tensors in the module's layout.
Prepare = Callable[..., list[Call]]


def conv2d_nhwc(stride: int = 1, padding: int = 0, dilation: int = 1, groups: int = 1) -> Prepare:
    def prepare(torch: Any, data: Any, weight: Any) -> list[Call]:
        convolve = torch.nn.functional.conv2d
        return [
            partial(convolve, image, filters, None, stride, padding, dilation, groups)
            for image, filters in arranged(torch, data.permute(0, 3, 1, 2), weight.permute(3, 2, 0, 1))
        ]

    return prepare


def conv2d_bn_relu(stride: int, padding: int) -> Prepare:
    def prepare(torch: Any, data: Any, weight: Any, bias: Any, offset: Any, scale: Any) -> list[Call]:
        offset, scale = offset.reshape(1, -1, 1, 1), scale.reshape(1, -1, 1, 1)

        def call(image: Any, filters: Any) -> Any:
            out = torch.nn.functional.conv2d(image, filters, bias, stride, padding)
            return out.mul_(scale).add_(offset).relu_()

        pairs = arranged(torch, data.permute(0, 3, 1, 2), weight.permute(3, 2, 0, 1))
        return [partial(call, *pair) for pair in pairs]

    return prepare


def conv2d_nchw(stride: int, padding: int, dilation: int = 1, groups: int = 1) -> Prepare:
    def prepare(torch: Any, data: Any, weight: Any) -> list[Call]:
        convolve = torch.nn.functional.conv2d
        return [
            partial(convolve, *pair, None, stride, padding, dilation, groups)
            for pair in arranged(torch, data, weight)
        ]

    return prepare


def conv2d_nchw_relu(stride: int, padding: int) -> Prepare:
    def prepare(torch: Any, data: Any, weight: Any) -> list[Call]:
        def call(image: Any, filters: Any) -> Any:
            return torch.nn.functional.conv2d(image, filters, None, stride, padding).relu_()

        return [partial(call, *pair) for pair in arranged(torch, data, weight)]

    return prepare


def conv2d_transposed(stride: int, padding: int) -> Prepare:
    """The filter's taps lie turned around in the module, which changes no time."""

    def prepare(torch: Any, data: Any, weight: Any) -> list[Call]:
        convolve = torch.nn.functional.conv_transpose2d
        pairs = arranged(torch, data.permute(0, 3, 1, 2), weight.permute(2, 3, 0, 1))
        return [partial(convolve, *pair, None, stride, padding) for pair in pairs]

    return prepare


def conv2d_transposed_nchw_relu(stride: int, padding: int) -> Prepare:
    def prepare(torch: Any, data: Any, weight: Any) -> list[Call]:
        def call(image: Any, filters: Any) -> Any:
            return torch.nn.functional.conv_transpose2d(image, filters, None, stride, padding).relu_()

        return [partial(call, *pair) for pair in arranged(torch, data, weight)]

    return prepare


def conv3d(padding: int, stride: int = 1) -> Prepare:
    def prepare(torch: Any, data: Any, weight: Any) -> list[Call]:
        formats = (torch.contiguous_format, torch.channels_last_3d)
        image, filters = data.permute(0, 4, 1, 2, 3), weight.permute(4, 3, 0, 1, 2)
        pairs = [[each.contiguous(memory_format=order) for each in (image, filters)] for order in formats]
        return [partial(torch.nn.functional.conv3d, *pair, None, stride, padding) for pair in pairs]

    return prepare


def conv1d(stride: int, padding: int) -> Prepare:
    """PyTorch knows channels first alone in one dimension."""

    def prepare(torch: Any, data: Any, weight: Any) -> list[Call]:
        line, filters = data.permute(0, 2, 1).contiguous(), weight.permute(2, 1, 0).contiguous()
        convolve = torch.nn.functional.conv1d
        return [lambda: convolve(line, filters, None, stride, padding).permute(0, 2, 1)]

    return prepare


def depthwise(padding: int, stride: int = 1) -> Prepare:
    def prepare(torch: Any, data: Any, weight: Any) -> list[Call]:
        convolve, channels = torch.nn.functional.conv2d, data.shape[3]
        pairs = arranged(torch, data.permute(0, 3, 1, 2), weight.permute(3, 0, 1, 2))
        return [partial(convolve, *pair, None, stride, padding, 1, channels) for pair in pairs]

    return prepare


def arranged(torch: Any, image: Any, filters: Any) -> list[tuple[Any, Any]]:
    """Both with channels first, and both with channels last: which is faster depends on the shape."""
    formats = (torch.contiguous_format, torch.channels_last)
    return [tuple(each.contiguous(memory_format=order) for each in (image, filters)) for order in formats]


def conv2d_nchw_bias_relu(stride: int, padding: int | tuple[int, int]) -> Prepare:
    def prepare(torch: Any, data: Any, weight: Any, bias: Any) -> list[Call]:
        flat = bias.reshape(-1)

        def call(image: Any, filters: Any) -> Any:
            return torch.nn.functional.conv2d(image, filters, flat, stride, padding).relu_()

        return [partial(call, *pair) for pair in arranged(torch, data, weight)]

    return prepare


def depthwise_nchw(stride: int, padding: int = 1) -> Prepare:
    def prepare(torch: Any, data: Any, weight: Any, bias: Any = None) -> list[Call]:
        convolve, channels = torch.nn.functional.conv2d, data.shape[1]
        flat = None if bias is None else bias.reshape(-1)
        pairs = arranged(torch, data, weight)
        return [partial(convolve, *pair, flat, stride, padding, 1, channels) for pair in pairs]

    return prepare


def conv2d_blocked(torch: Any, data: Any, weight: Any) -> list[Call]:
    """Blocks of channels are oneDNN's own matter here."""
    image = data.permute(0, 1, 4, 2, 3).flatten(1, 2)
    filters = weight.permute(0, 5, 1, 4, 2, 3).flatten(2, 3).flatten(0, 1)
    convolve = torch.nn.functional.conv2d
    return [partial(convolve, *pair, None, 1, 1) for pair in arranged(torch, image, filters)]


def conv1d_ncw(stride: int, padding: int) -> Prepare:
    def prepare(torch: Any, data: Any, weight: Any) -> list[Call]:
        return [partial(torch.nn.functional.conv1d, data, weight, None, stride, padding)]

    return prepare


def conv1d_ncw_relu(torch: Any, data: Any, weight: Any) -> list[Call]:
    return [lambda: torch.nn.functional.conv1d(data, weight, None, 1, 2, 2).relu_()]


def depthwise_dilated(torch: Any, data: Any, weight: Any) -> list[Call]:
    convolve, groups = torch.nn.functional.conv2d, weight.shape[2]
    return [
        partial(convolve, image, filters, None, 1, 2, 2, groups)
        for image, filters in arranged(torch, data.permute(0, 3, 1, 2), weight.permute(2, 3, 0, 1))
    ]


def depthwise_3d(torch: Any, data: Any, weight: Any) -> list[Call]:
    return [lambda: torch.nn.functional.conv3d(data, weight, None, 1, 1, 1, data.shape[1])]


def conv2d_transposed_nchw(stride: int, padding: int, more: int = 0) -> Prepare:
    def prepare(torch: Any, data: Any, weight: Any) -> list[Call]:
        convolve = torch.nn.functional.conv_transpose2d
        return [
            partial(convolve, *pair, None, stride, padding, more) for pair in arranged(torch, data, weight)
        ]

    return prepare


def conv1d_transposed_ncw(stride: int, padding: int) -> Prepare:
    def prepare(torch: Any, data: Any, weight: Any) -> list[Call]:
        return [partial(torch.nn.functional.conv_transpose1d, data, weight, None, stride, padding)]

    return prepare


def residual(torch: Any, data: Any, weight: Any, bias: Any, skip: Any) -> list[Call]:
    def call(image: Any, filters: Any, added: Any) -> Any:
        return torch.nn.functional.conv2d(image, filters, bias, 1, 1).add_(added).relu_()

    formats = (torch.contiguous_format, torch.channels_last)
    tensors = (data.permute(0, 3, 1, 2), weight.permute(3, 2, 0, 1), skip.permute(0, 3, 1, 2))
    return [partial(call, *(each.contiguous(memory_format=order) for each in tensors)) for order in formats]


def joined_nchw(torch: Any, first: Any, second: Any, weight: Any, bias: Any) -> list[Call]:
    """3x3 of both images' channels."""
    flat = bias.reshape(-1)

    def call(one: Any, other: Any, filters: Any) -> Any:
        return torch.nn.functional.conv2d(torch.cat((one, other), 1), filters, flat, 1, 1).relu_()

    formats = (torch.contiguous_format, torch.channels_last)
    triples = [
        [each.contiguous(memory_format=order) for each in (first, second, weight)] for order in formats
    ]
    return [partial(call, *triple) for triple in triples]


def excited_nchw(torch: Any, data: Any, scale: Any, weight: Any, bias: Any) -> list[Call]:
    flat = bias.reshape(-1)

    def call(image: Any, filters: Any) -> Any:
        return torch.nn.functional.conv2d(torch.mul(image, scale), filters, flat)

    return [partial(call, *pair) for pair in arranged(torch, data, weight)]


def depthwise_relu6(torch: Any, data: Any, weight: Any, scale: Any, shift: Any) -> list[Call]:
    """Scale and shift as a batch normalisation, which makes one pass of them."""
    functional, channels = torch.nn.functional, data.shape[3]
    mean, variance = torch.zeros_like(scale), torch.ones_like(scale)

    def call(image: Any, filters: Any) -> Any:
        out = functional.conv2d(image, filters, None, 1, 1, 1, channels)
        return functional.relu6(functional.batch_norm(out, mean, variance, scale, shift), inplace=True)

    pairs = arranged(torch, data.permute(0, 3, 1, 2), weight.permute(3, 0, 1, 2))
    return [partial(call, *pair) for pair in pairs]
