"""Times of mm_relu untuned, tuned and in numpy: same inputs, same process, taken in turns.

Compiled functions are timed by TVM's time_evaluator, numpy by a loop of calls; both warm up first.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm

#: A multiplication and an addition for each step of the reduction, one comparison for each output.
FLOPS = 2 * 128**3 + 128**2
_ROUNDS = 7
_ROUND_MS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    name: str
    latency_secs: float

    @property
    def gflops(self) -> float:
        return FLOPS / self.latency_secs / 1e9


class WrongNumbersError(ArithmeticError):
    """A compiled function disagrees with numpy."""


def compare(modules: dict[str, Any], target: Any) -> list[Row]:
    """Median seconds of each module and of numpy. WrongNumbersError where one computes something else."""
    rng = np.random.default_rng(0)
    a, b = (rng.random((128, 128), dtype="float32") - 0.5 for _ in range(2))
    c = np.empty((128, 128), dtype="float32")

    def numpy_mm_relu() -> None:
        np.matmul(a, b, out=c)
        np.maximum(c, 0, out=c)

    timers: dict[str, Callable[[], float]] = {
        name: _compiled(name, mod, target, a, b) for name, mod in modules.items()
    }
    timers["numpy"] = lambda: _timed(numpy_mm_relu)
    secs: dict[str, list[float]] = {name: [] for name in timers}
    for _ in range(_ROUNDS):
        for name, timer in timers.items():
            secs[name].append(timer())
    return [Row(name=name, latency_secs=float(np.median(times))) for name, times in secs.items()]


def _compiled(name: str, mod: Any, target: Any, a: Any, b: Any) -> Callable[[], float]:
    """A timer of the module's function on the inputs; it runs in this process and needs no linker."""
    library = tvm.compile(mod, target)
    out = tvm.runtime.tensor(np.zeros((128, 128), dtype="float32"))
    arguments = (tvm.runtime.tensor(a), tvm.runtime.tensor(b), out)
    library["main"](*arguments)
    try:
        np.testing.assert_allclose(out.numpy(), np.maximum(a @ b, 0), rtol=1e-4, atol=1e-5)
    except AssertionError as error:
        raise WrongNumbersError(f"the {name} function disagrees with numpy: {error}") from error
    evaluator = library.mod.time_evaluator("main", tvm.cpu(), number=3, min_repeat_ms=_ROUND_MS)
    return lambda: float(evaluator(*arguments).mean)


def _timed(call: Callable[[], None]) -> float:
    """Mean seconds of a call, over enough of them; the first ones warm caches and threads."""
    for _ in range(3):
        call()
    number = 1
    while True:
        started = time.perf_counter()
        for _ in range(number):
            call()
        spent_secs = time.perf_counter() - started
        if spent_secs * 1e3 >= _ROUND_MS:
            return spent_secs / number
        number *= 2
