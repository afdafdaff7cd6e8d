"""What models hold fused, or in extents that fill no vectors: gates, attention, normalised operands. float32.

All served to make rules better since (docs/design-space-log.md, "Fused functions, and rows of any length").
"""

from collections.abc import Callable, Sequence
from typing import Any

from bench.fresh import depthwise_nchw
from bench.suite import Build
from bench.unseen import layer_norm


def of_topi(function: Callable[..., Any], *shapes: Sequence[int]) -> Build:
    """`function` of topi and a placeholder for each shape."""

    def build() -> Sequence[Any]:
        from tvm import te, topi

        arguments = [te.placeholder(tuple(shape), name=f"X{at}") for at, shape in enumerate(shapes)]
        return *arguments, function(topi, *arguments)

    return build


def _masked_softmax(topi: Any, scores: Any, mask: Any) -> Any:
    """A polynomial in place of exp, as relax's FastMathTransform writes it."""
    return topi.nn.fast_softmax(topi.add(topi.multiply(scores, 0.125), mask), 2)


def _attention(topi: Any, queries: Any, keys: Any, values: Any) -> Any:
    """Values lie along their rows."""
    weights = topi.nn.fast_softmax(topi.nn.batch_matmul(queries, keys), 2)
    return topi.nn.batch_matmul(weights, values)


def _gates(topi: Any, x: Any, h: Any, w: Any, u: Any) -> Any:
    return topi.tanh(topi.add(topi.nn.dense(x, w), topi.nn.dense(h, u)))


FUSED: dict[str, Build] = {
    "NORM-500": layer_norm(256, 500),
    "NORM-100": layer_norm(512, 100),
    "INSTANCE": of_topi(
        lambda topi, x, g, b: topi.nn.instance_norm(x, g, b, 1, [2, 3]), (1, 128, 28, 28), (128,), (128,)
    ),
    "ROW-MAX": of_topi(lambda topi, x: topi.max(x, axis=1), (1024, 1000)),
    "GAP-14": of_topi(lambda topi, x: topi.nn.global_pool(x, "avg", "NCHW"), (8, 512, 14, 14)),
    "RELU-DENSE": of_topi(lambda topi, x, w: topi.nn.dense(topi.nn.relu(x), w), (128, 768), (512, 768)),
    "NORM-DENSE": of_topi(
        lambda topi, x, g, b, w: topi.nn.dense(topi.nn.layer_norm(x, g, b, [1]), w),
        *((128, 768), (768,), (768,), (768, 768)),
    ),
    "ATTENTION": of_topi(_attention, (12, 128, 64), (12, 128, 64), (12, 64, 128)),
    "MASKED-SFM": of_topi(_masked_softmax, (12, 197, 197), (197, 197)),
    "GATES": of_topi(_gates, (8, 256), (8, 256), (1024, 256), (1024, 256)),
    "DEP-DIL": of_topi(
        lambda topi, x, w: topi.nn.depthwise_conv2d_nhwc(x, w, 1, 2, 2), (1, 56, 56, 64), (3, 3, 64, 1)
    ),
    "DEP-7-14": depthwise_nchw(384, 14, 14, 7, 1, 3),
}
