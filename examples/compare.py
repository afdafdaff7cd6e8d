"""Times of mm_relu untuned, tuned and in numpy: the same inputs, taken in turns, each in its own process.

In their own processes, because the idle threads of one library (numpy's OpenBLAS, TVM's pool) go on spinning
for a while and would take a core from the other's next call. Compiled functions are timed by TVM's
time_evaluator, numpy by a loop of calls; both warm up first. TVM is given the threads that the target names:
left alone it takes half of the host's.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

#: A multiplication and an addition for each step of the reduction, one comparison for each output.
FLOPS = 2 * 128**3 + 128**2
_ROUNDS = 7
_ROUND_MS = 50
_NUMPY = "numpy"


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
    import tvm

    orders = {
        name: {"module": tvm.ir.save_json(mod), "target": _plain(target)} for name, mod in modules.items()
    }
    secs: dict[str, list[float]] = {}
    with ExitStack() as stack:
        timers = {
            name: stack.enter_context(_Timer(name, order)) for name, order in {**orders, _NUMPY: {}}.items()
        }
        for _ in range(_ROUNDS):
            for name, timer in timers.items():
                secs.setdefault(name, []).append(timer.time())
    return [Row(name=name, latency_secs=statistics.median(times)) for name, times in secs.items()]


class _Timer:
    """A process that holds one function and times it when asked; between its turns it sleeps."""

    def __init__(self, name: str, order: dict[str, Any]) -> None:
        command = [sys.executable, "-m", "examples.compare"]
        self._name = name
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=_environment(order)
        )
        self._tell(json.dumps({**order, "round_ms": _ROUND_MS}))

    def __enter__(self) -> Self:
        try:
            self.time()  # waits until it is ready; the first time is thrown away
        except WrongNumbersError:
            self._end()
            raise
        return self

    def __exit__(self, *_exc: object) -> None:
        self._end()

    def _end(self) -> None:
        self._process.communicate()

    def time(self) -> float:
        self._tell("go")
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        answer = json.loads(line) if line else {"error": "its process died"}
        if "error" in answer:
            raise WrongNumbersError(f"the {self._name} function {answer['error']}")
        return float(answer["secs"])

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()


def serve(lines: Iterator[str]) -> None:
    """The process of one function: the order on the first line, then a time for each further one."""
    order = json.loads(next(lines))
    rng = np.random.default_rng(0)
    a, b = (rng.random((128, 128), dtype="float32") - 0.5 for _ in range(2))
    try:
        timer = _compiled(order, a, b) if "module" in order else _numpy(order, a, b)
    except AssertionError as error:
        print(json.dumps({"error": f"disagrees with numpy: {error}"}), flush=True)
        return
    for _line in lines:
        print(json.dumps({"secs": timer()}), flush=True)


def _compiled(order: dict[str, Any], a: Any, b: Any) -> Callable[[], float]:
    """It is compiled and run in this process and needs no linker."""
    import tvm

    library = tvm.compile(tvm.ir.load_json(order["module"]), tvm.target.Target(order["target"]))
    out = tvm.runtime.tensor(np.zeros((128, 128), dtype="float32"))
    arguments = (tvm.runtime.tensor(a), tvm.runtime.tensor(b), out)
    library["main"](*arguments)
    np.testing.assert_allclose(out.numpy(), np.maximum(a @ b, 0), rtol=1e-4, atol=1e-5)
    evaluator = library.mod.time_evaluator("main", tvm.cpu(), number=3, min_repeat_ms=order["round_ms"])
    return lambda: float(evaluator(*arguments).mean)


def _numpy(order: dict[str, Any], a: Any, b: Any) -> Callable[[], float]:
    out = np.empty((128, 128), dtype="float32")

    def call() -> None:
        np.matmul(a, b, out=out)
        np.maximum(out, 0, out=out)

    return lambda: _timed(call, order["round_ms"])


def _timed(call: Callable[[], None], round_ms: float) -> float:
    """Mean seconds of a call, over enough of them; the first ones warm caches and threads."""
    for _ in range(3):
        call()
    number = 1
    while True:
        started = time.perf_counter()
        for _ in range(number):
            call()
        spent_secs = time.perf_counter() - started
        if spent_secs * 1e3 >= round_ms:
            return spent_secs / number
        number *= 2


def _environment(order: dict[str, Any]) -> dict[str, str]:
    num_cores = order.get("target", {}).get("num-cores")
    return {**os.environ, **({"TVM_NUM_THREADS": str(num_cores)} if num_cores else {})}


def _plain(target: Any) -> dict[str, Any]:
    """The target as a dict of plain values, for another process."""
    return {key: _value(value) for key, value in target.export().items() if key not in ("tag", "keys")}


def _value(value: Any) -> Any:
    if isinstance(value, bool | int | float):
        return value
    return str(value) if isinstance(value, str) else [_value(item) for item in value]


if __name__ == "__main__":
    serve(iter(sys.stdin))
