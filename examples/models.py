"""Whole models, written as Relax, small enough to tune on a laptop: what `tilefarm.tune_relax` is for.

`models()` gives them by name. Weights are parameters of `main`, with values beside them, as a front end would
give them; `bound` makes constants of them. Inputs and weights come from a fixed seed.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax, topi
from tvm.relax import op
from tvm.relax.op import nn


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    mod: tvm.IRModule
    #: By parameter of `main`.
    params: dict[str, Any]
    #: float32, in the order of `main`'s other parameters.
    inputs: tuple[np.ndarray, ...]

    def bound(self) -> tvm.IRModule:
        return relax.transform.BindParams("main", self.tensors())(self.mod)

    def tensors(self) -> dict[str, Any]:
        return {name: tvm.runtime.tensor(value) for name, value in self.params.items()}


class Layers:
    """A model being built: `main` has one input, and a parameter for each weight."""

    def __init__(self, shape: tuple[int, ...], *, seed: int = 0) -> None:
        self._random = np.random.default_rng(seed)
        self._weights: dict[str, Any] = {}
        self._variables: list[relax.Var] = []
        self._input = relax.Var("x", relax.TensorType(shape, "float32"))
        self._value = self._draw(shape, 1.0)
        self._builder = relax.BlockBuilder()

    def weight(self, name: str, shape: tuple[int, ...], scale: float = 0.1, offset: float = 0.0) -> relax.Var:
        self._weights[name] = self._draw(shape, scale) + np.float32(offset)
        self._variables.append(relax.Var(name, relax.TensorType(shape, "float32")))
        return self._variables[-1]

    def emit(self, expr: relax.Expr) -> relax.Var:
        return self._builder.emit(expr)

    def emit_te(self, function: Callable[..., Any], *args: Any, **named: Any) -> relax.Var:
        return self._builder.emit_te(function, *args, **named)

    def linear(self, x: relax.Var, name: str, n_in: int, n_out: int) -> relax.Var:
        """x · Wᵀ + b, as torch keeps its weights."""
        weight = self.weight(f"{name}_weight", (n_out, n_in), 2 / math.sqrt(n_in))
        product = self.emit(op.matmul(x, op.permute_dims(weight)))
        return self.emit(op.add(product, self.weight(f"{name}_bias", (n_out,))))

    def model(self, forward: Callable[["Layers", relax.Var], relax.Expr]) -> Model:
        # The parameters are known only after the layers are built: they join the function then.
        with self._builder.function("main", params=None):
            with self._builder.dataflow():
                out = self._builder.emit_output(forward(self, self._input))
            self._builder.emit_func_output(out, [self._input, *self._variables])
        mod = self._builder.get()
        mod["main"] = mod["main"].with_attr("num_input", 1)
        return Model(mod=mod, params=dict(self._weights), inputs=(self._value,))

    def _draw(self, shape: tuple[int, ...], scale: float) -> np.ndarray:
        return ((self._random.random(shape, dtype="float32") - 0.5) * scale).astype("float32")


def mlp() -> Model:
    """The classroom's: 784 → 128 → 10 on a flattened picture."""

    def forward(net: Layers, x: relax.Var) -> relax.Expr:
        hidden = net.emit(nn.relu(net.linear(x, "linear0", 784, 128)))
        return net.linear(hidden, "linear1", 128, 10)

    return Layers((1, 784)).model(forward)


def linear() -> Model:
    """One layer whose weight is stored transposed: unbound, its transpose is a task of its own."""
    return Layers((16, 256)).model(lambda net, x: net.linear(x, "linear", 256, 128))


def cnn() -> Model:
    """The classroom's small CNN, operator by operator as tensor expressions."""

    def forward(net: Layers, x: relax.Var) -> relax.Expr:
        weight = net.weight("conv_weight", (32, 1, 3, 3))
        h = net.emit_te(topi.nn.conv2d, x, weight, 1, 0, 1)
        h = net.emit_te(topi.add, h, net.weight("conv_bias", (1, 32, 1, 1)))
        h = net.emit_te(topi.nn.relu, h)
        h = net.emit_te(topi.nn.pool2d, h, [2, 2], [2, 2], [1, 1], [0, 0, 0, 0], "max")
        h = net.emit_te(topi.nn.flatten, h)
        h = _te_linear(net, h, "linear0", 32 * 13 * 13, 100)
        h = net.emit_te(topi.nn.relu, h)
        h = _te_linear(net, h, "linear1", 100, 10)
        return net.emit_te(topi.nn.softmax, h)

    return Layers((1, 1, 28, 28)).model(forward)


def conv_bn() -> Model:
    """Convolution, batch norm, ReLU, pooling: with and without batch norm taken apart, no key is the same."""

    def forward(net: Layers, x: relax.Var) -> relax.Expr:
        h = net.emit(nn.relu(_conv_bn(net, x, "conv", (8, 3, 3), 1)))
        h = net.emit(nn.max_pool2d(h, (2, 2), (2, 2)))
        return nn.softmax(net.emit(op.reshape(h, (1, 8 * 8 * 8))))

    return Layers((1, 3, 16, 16)).model(forward)


def resnet() -> Model:
    """A stem and two stages of two basic blocks each, as in ResNet-18, on a 32 × 32 picture."""

    def forward(net: Layers, x: relax.Var) -> relax.Expr:
        h = net.emit(nn.relu(_conv_bn(net, x, "stem", (64, 3, 3), 1)))
        for index, (n_in, n_out, stride) in enumerate(
            [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1)]
        ):
            h = _basic_block(net, h, f"block{index}", n_in, n_out, stride)
        pooled = net.emit(op.reshape(net.emit(op.mean(h, [2, 3])), (1, 128)))
        return net.linear(pooled, "head", 128, 10)

    return Layers((1, 3, 32, 32)).model(forward)


def transformer(length: int = 64, width: int = 256, heads: int = 4) -> Model:
    """One encoder block: self-attention and a feed-forward layer, each behind a layer norm and a shortcut."""

    def forward(net: Layers, x: relax.Var) -> relax.Expr:
        h = net.emit(op.add(x, _attention(net, _layer_norm(net, x, "norm0", width), length, width, heads)))
        inner = net.emit(nn.gelu(net.linear(_layer_norm(net, h, "norm1", width), "up", width, 4 * width)))
        return op.add(h, net.linear(inner, "down", 4 * width, width))

    return Layers((1, length, width)).model(forward)


def models() -> dict[str, Callable[[], Model]]:
    return {
        "mlp": mlp,
        "linear": linear,
        "cnn": cnn,
        "conv_bn": conv_bn,
        "resnet": resnet,
        "transformer": transformer,
    }


def _te_linear(net: Layers, x: relax.Var, name: str, n_in: int, n_out: int) -> relax.Var:
    weight = net.weight(f"{name}_weight", (n_out, n_in), 2 / math.sqrt(n_in))
    return net.emit_te(topi.nn.dense, x, weight, net.weight(f"{name}_bias", (n_out,)))


def _conv_bn(net: Layers, x: relax.Var, name: str, kernel: tuple[int, int, int], stride: int) -> relax.Var:
    n_out, n_in, size = kernel
    weight = net.weight(f"{name}_weight", (n_out, n_in, size, size), 2 / math.sqrt(n_in * size * size))
    h = net.emit(nn.conv2d(x, weight, strides=stride, padding=size // 2))
    gamma, beta, mean = (
        net.weight(f"{name}_{part}", (n_out,), 0.1, 1.0) for part in ("gamma", "beta", "mean")
    )
    variance = net.weight(f"{name}_variance", (n_out,), 0.1, 1.0)
    normal = net.emit(nn.batch_norm(h, gamma, beta, mean, variance, axis=1, training=False))
    return net.emit(relax.TupleGetItem(normal, 0))


def _basic_block(net: Layers, x: relax.Var, name: str, n_in: int, n_out: int, stride: int) -> relax.Var:
    h = net.emit(nn.relu(_conv_bn(net, x, f"{name}_a", (n_out, n_in, 3), stride)))
    h = _conv_bn(net, h, f"{name}_b", (n_out, n_out, 3), 1)
    shortcut = x if stride == 1 else _conv_bn(net, x, f"{name}_short", (n_out, n_in, 1), stride)
    return net.emit(nn.relu(net.emit(op.add(h, shortcut))))


def _layer_norm(net: Layers, x: relax.Var, name: str, width: int) -> relax.Var:
    gamma, beta = net.weight(f"{name}_gamma", (width,), 0.1, 1.0), net.weight(f"{name}_beta", (width,))
    return net.emit(nn.layer_norm(x, gamma, beta, axes=[-1]))


def _attention(net: Layers, x: relax.Var, length: int, width: int, heads: int) -> relax.Var:
    def split(name: str) -> relax.Var:
        """[1, heads, length, width / heads]"""
        apart = net.emit(op.reshape(net.linear(x, name, width, width), (1, length, heads, width // heads)))
        return net.emit(op.permute_dims(apart, [0, 2, 1, 3]))

    query, key, value = split("query"), split("key"), split("value")
    scores = net.emit(op.matmul(query, op.permute_dims(key, [0, 1, 3, 2])))
    weights = net.emit(nn.softmax(op.multiply(scores, relax.const(1 / math.sqrt(width // heads), "float32"))))
    mixed = net.emit(op.permute_dims(op.matmul(weights, value), [0, 2, 1, 3]))
    return net.linear(net.emit(op.reshape(mixed, (1, length, width))), "out", width, width)
