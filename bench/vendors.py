"""What numpy's OpenBLAS takes for a workload of the suite that is a matrix product, in a process of its own.

`python -m bench.vendors ORDER ANSWER` is that process; it loads no TVM. Products with a bias and an
activation are what a user of numpy would write: nothing is packed before, nothing is fused.
"""

import json
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.processes import ask, order_and_answer

Array = npt.NDArray[np.float32]

_REPEATS, _REPEAT_SECS = 5, 0.02


def numpy_secs(name: str, module_json: str, target: Mapping[str, Any]) -> float | None:
    """Median seconds of a call on as many cores as the target has; None where numpy has no such function.

    The module tells the inputs' shapes. Loads TVM, in this process only.
    """
    if name not in PRODUCTS:
        return None
    from tuner.module import load_module

    *inputs, _ = load_module(module_json)["main"].params
    cores = int(target["num-cores"])
    order = {
        "name": name,
        "shapes": [[int(extent) for extent in parameter.ty.shape] for parameter in inputs],
        "cores": cores,
    }
    return float(ask("bench.vendors", order, env={"OPENBLAS_NUM_THREADS": str(cores)})["secs"])


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


def _product_bias_relu(a: Array, b: Array, bias: Array) -> Array:
    return np.maximum(np.matmul(a, b) + bias, np.float32(0))


#: By the names of bench.suite and bench.unseen.
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
}


def main() -> None:
    order, answer = order_and_answer()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: order["cores"]])
    generator = np.random.default_rng(0)
    inputs = [generator.random(shape, dtype=np.float32) for shape in order["shapes"]]
    answer.write_text(json.dumps({"secs": _timed(PRODUCTS[order["name"]], inputs)}))


def _timed(function: Callable[..., Array], inputs: Sequence[Array]) -> float:
    function(*inputs)
    began = time.perf_counter()
    function(*inputs)
    number = max(1, round(_REPEAT_SECS / (time.perf_counter() - began)))
    means = []
    for _ in range(_REPEATS):
        began = time.perf_counter()
        for _ in range(number):
            function(*inputs)
        means.append((time.perf_counter() - began) / number)
    return statistics.median(means)


if __name__ == "__main__":
    main()
