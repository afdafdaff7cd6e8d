"""Matrix products by numpy, as its users write them: nothing packed before, nothing fused.

`python -m bench.vendor_numpy ORDER ANSWER` is the process that times one.
"""

from collections.abc import Callable, Sequence

import numpy as np

from bench.names import kind_and_sizes
from bench.vendor_timing import Array, Call, answer


def _dense(data: Array, weight: Array, bias: Array) -> Array:
    return data @ weight.T + bias


def _dense_gelu(data: Array, weight: Array, bias: Array) -> Array:
    from scipy.special import erf

    out = _dense(data, weight, bias)
    return out * np.float32(0.5) * (1 + erf(out * np.float32(0.5**0.5)))


def _product(a: Array, b: Array) -> Array:
    return np.matmul(a, b)


def _attention(query: Array, value: Array) -> Array:
    """[batch, sequence, heads, dim] each; as te_workload.transpose_batch_matmul."""
    return np.matmul(query.transpose(0, 2, 1, 3), value.transpose(0, 2, 3, 1))


def _scores(a: Array, b: Array) -> Array:
    return np.matmul(a, b.transpose(0, 2, 1))


def _product_bias_relu(a: Array, b: Array, bias: Array) -> Array:
    return np.maximum(np.matmul(a, b) + bias, np.float32(0))


def _product_turned(a: Array, b: Array) -> Array:
    return np.matmul(a.T, b)


#: By the names of bench.workloads.
PRODUCTS: dict[str, Callable[..., Array]] = {
    "GMM-512": _product,
    "GMM-1024": _product,
    "TBG": _attention,
    "DENSE": _dense_gelu,
    "DENSE-odd": _dense,
    "GEMV": _dense,
    "SKINNY": _dense,
    "BMM-bias": _product_bias_relu,
    "GMM-prime": _product_bias_relu,
    "SCORES": _scores,
    "DENSE-197": _dense,
    "GEMV-NN": _product,
    "SKINNY-NN": _product,
    "LONG-K": _product,
    "GMM-TN": _product_turned,
    "FFN": _dense,
    "ATTEND": _product,
    "TALL": _product,
    "GMM-1000": _product,
    "GMM-odd": _product,
    "CLASSES": _product,
    "EIGHT": _product,
    "OUTER": _product,
    "GEMV-1000": _dense,
    "TBG-197": _attention,
}


#: Of the kinds of bench.kinds.
KINDS: dict[str, Callable[..., Array]] = {
    "matmul": _product,
    "matmul-tn": _product_turned,
    "dense": _dense,
    "scores": _scores,
    "batch-matmul": _product,
}


def _prepare(name: str, inputs: Sequence[Array], _cores: int) -> list[Call]:
    kind, sizes = kind_and_sizes(name)
    product = KINDS[kind] if sizes else PRODUCTS[name]
    return [lambda: product(*inputs)]


if __name__ == "__main__":
    answer(_prepare)
