"""What the models of examples/models.py compute, in numpy and float64: compiles of them are held to it."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from examples.models import Model

Array = np.ndarray[Any, np.dtype[np.float64]]
#: Of relax's batch_norm and layer_norm.
_EPSILON = 1e-5


def in_numpy(name: str, model: Model, *, heads: int = 4) -> Array:
    """The output of the named model; `heads` are of the transformer."""
    weights = {key: value.astype(np.float64) for key, value in model.params.items()}
    return _FORWARD[name](model.inputs[0].astype(np.float64), weights, heads)


def _mlp(x: Array, w: dict[str, Array], _heads: int) -> Array:
    return _linear(_relu(_linear(x, w, "linear0")), w, "linear1")


def _cnn(x: Array, w: dict[str, Array], _heads: int) -> Array:
    h = _relu(_conv(x, w["conv_weight"], stride=1, padding=0) + w["conv_bias"])
    pooled = h.reshape(*h.shape[:2], h.shape[2] // 2, 2, h.shape[3] // 2, 2).max(axis=(3, 5))
    hidden = _relu(_linear(pooled.reshape(pooled.shape[0], -1), w, "linear0"))
    return _softmax(_linear(hidden, w, "linear1"))


def _resnet(x: Array, w: dict[str, Array], _heads: int) -> Array:
    h = _relu(_conv_bn(x, w, "stem", 1))
    for index, stride in enumerate((1, 1, 2, 1)):
        h = _basic_block(h, w, f"block{index}", stride)
    return _linear(h.mean(axis=(2, 3)), w, "head")


def _transformer(x: Array, w: dict[str, Array], heads: int) -> Array:
    h = x + _attention(_layer_norm(x, w, "norm0"), w, heads)
    return h + _linear(_gelu(_linear(_layer_norm(h, w, "norm1"), w, "up")), w, "down")


_FORWARD: dict[str, Callable[[Array, dict[str, Array], int], Array]] = {
    "mlp": _mlp,
    "cnn": _cnn,
    "resnet": _resnet,
    "transformer": _transformer,
}


def _linear(x: Array, w: dict[str, Array], name: str) -> Array:
    return x @ w[f"{name}_weight"].T + w[f"{name}_bias"]


def _relu(x: Array) -> Array:
    found: Array = np.maximum(x, 0)
    return found


def _gelu(x: Array) -> Array:
    found: Array = x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))
    return found


def _softmax(x: Array) -> Array:
    powers: Array = np.exp(x - x.max(axis=-1, keepdims=True))
    found: Array = powers / powers.sum(axis=-1, keepdims=True)
    return found


def _conv(x: Array, weight: Array, *, stride: int, padding: int) -> Array:
    """NCHW by OIHW."""
    padded = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, weight.shape[2:], axis=(2, 3))
    windows = windows[:, :, ::stride, ::stride].transpose(0, 2, 3, 1, 4, 5)
    # Each place's window as a row: one product of matrices, which numpy leaves to BLAS.
    rows = windows.reshape(*windows.shape[:3], -1)
    found: Array = (rows @ weight.reshape(weight.shape[0], -1).T).transpose(0, 3, 1, 2)
    return found


def _conv_bn(x: Array, w: dict[str, Array], name: str, stride: int) -> Array:
    weight = w[f"{name}_weight"]
    h = _conv(x, weight, stride=stride, padding=weight.shape[2] // 2)
    gamma, beta, mean, variance = (
        w[f"{name}_{part}"][:, None, None] for part in ("gamma", "beta", "mean", "variance")
    )
    found: Array = (h - mean) / np.sqrt(variance + _EPSILON) * gamma + beta
    return found


def _basic_block(x: Array, w: dict[str, Array], name: str, stride: int) -> Array:
    h = _conv_bn(_relu(_conv_bn(x, w, f"{name}_a", stride)), w, f"{name}_b", 1)
    shortcut = x if stride == 1 else _conv_bn(x, w, f"{name}_short", stride)
    return _relu(h + shortcut)


def _layer_norm(x: Array, w: dict[str, Array], name: str) -> Array:
    normal: Array = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + _EPSILON)
    return normal * w[f"{name}_gamma"] + w[f"{name}_beta"]


def _attention(x: Array, w: dict[str, Array], heads: int) -> Array:
    def split(name: str) -> Array:
        """[n, heads, length, width / heads]"""
        return _linear(x, w, name).reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)

    query, key, value = split("query"), split("key"), split("value")
    weights = _softmax(query @ key.transpose(0, 1, 3, 2) / math.sqrt(query.shape[-1]))
    return _linear((weights @ value).transpose(0, 2, 1, 3).reshape(x.shape), w, "out")
