"""Times one function of a library, in that library's process: no TVM, nothing of the project beside."""

import json
import os
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.processes import order_and_answer

Array = npt.NDArray[np.float32]
#: Made of the inputs, outside the timing: calls the library once and returns its output.
Call = Callable[[], Any]

_REPEATS, _REPEAT_SECS = 9, 0.02


def answer(prepare: Callable[[str, Sequence[Array], int], Sequence[Call]]) -> None:
    """`prepare(name, inputs, cores)` gives calls that compute the same; the fastest's median counts."""
    order, answer_path = order_and_answer()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: order["cores"]])
    generator = np.random.default_rng(0)
    inputs = [generator.random(shape, dtype=np.float32) for shape in order["shapes"]]
    calls = prepare(order["name"], inputs, order["cores"])
    answer_path.write_text(json.dumps({"secs": min(_timed(call) for call in calls)}))


def _timed(call: Call) -> float:
    call()
    began = time.perf_counter()
    call()
    number = max(1, round(_REPEAT_SECS / (time.perf_counter() - began)))
    means = []
    for _ in range(_REPEATS):
        began = time.perf_counter()
        for _ in range(number):
            call()
        means.append((time.perf_counter() - began) / number)
    return statistics.median(means)
