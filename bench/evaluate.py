"""One careful evaluator for all: schedules of one workload, built and timed interleaved in fresh processes.

It knows nothing of the service or of stock; it sees modules and traces. Each is built as a consumer builds
it (layout rewrite stays), its outputs are compared with the untuned module's, and its times are the median
over repeats and processes. `python -m bench.evaluate ORDER ANSWER` is one such process.
"""

import json
import math
import os
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.buildable import LIMIT_SECS, unbuildable
from bench.processes import BenchError, ask, order_and_answer
from tuner.tvm_light import load_tvm
from workers.timing import take_cores

_FLUSH_BYTES = 64 << 20
_MOST_CALLS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Care:
    """How carefully one process times each schedule."""

    repeats: int = 10
    repeat_ms: float = 50.0
    #: Single calls, each after 64 MiB were written; 0: none.
    flushed_calls: int = 0
    processes: int = 1


#: For finals; and for the many points of a curve.
FINAL = Care(flushed_calls=15, processes=3)
CURVE = Care(repeats=5, repeat_ms=20.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """Seconds per call of one schedule."""

    #: One mean per repeat, over all processes.
    repeats: tuple[float, ...]
    flushed: tuple[float, ...]
    #: Largest difference to the untuned output, relative to the largest output.
    difference: float

    @property
    def secs(self) -> float:
        return statistics.median(self.repeats)

    @property
    def flushed_secs(self) -> float | None:
        return statistics.median(self.flushed) if self.flushed else None


def timed(
    module_json: str,
    traces: Mapping[str, Any],
    target: Mapping[str, Any],
    care: Care,
    *,
    build_limit_secs: float = LIMIT_SECS,
) -> dict[str, Timed]:
    """Times of each named trace (None: the untuned module).

    Raises BenchError where one does not build within `build_limit_secs`: which, and why.
    """
    names = list(traces)
    failed = unbuildable(module_json, list(traces.values()), target, limit_secs=build_limit_secs)
    if failed:
        reasons = "; ".join(f"{names[index]}: {reason}" for index, reason in failed.items())
        raise BenchError(f"no time of {reasons}")
    order = {
        "module": module_json,
        "target": dict(target),
        "traces": [traces[name] for name in names],
        "repeats": care.repeats,
        "repeat_ms": care.repeat_ms,
        "flushed_calls": care.flushed_calls,
    }
    # Before TVM's thread pool starts: left alone it takes half of the host's cores.
    threads = {"TVM_NUM_THREADS": str(target["num-cores"])}
    answers = [ask("bench.evaluate", order, env=threads) for _ in range(care.processes)]
    return {
        name: Timed(
            repeats=tuple(secs for answer in answers for secs in answer[index]["repeats"]),
            flushed=tuple(secs for answer in answers for secs in answer[index]["flushed"]),
            difference=max(answer[index]["difference"] for answer in answers),
        )
        for index, name in enumerate(names)
    }


def main() -> None:
    order, answer_path = order_and_answer()
    answer_path.write_text(json.dumps(_evaluate(order)))


class _Kernel:
    """A built schedule with its own arguments."""

    def __init__(self, module: Any, target: Any, inputs: Sequence[Any]) -> None:
        import tvm

        library = tvm.compile(module, target)
        self._module = library.mod
        self._call = library.mod.get_function("main")
        self.arguments = [tvm.runtime.tensor(array) for array in inputs]
        self.repeats: list[float] = []
        self.flushed: list[float] = []
        self._call(*self.arguments)
        self.output = self.arguments[-1].numpy()
        self._estimate_secs = self.once()

    def once(self) -> float:
        began = time.perf_counter()
        self._call(*self.arguments)
        return time.perf_counter() - began

    def repeat(self, repeat_ms: float) -> None:
        import tvm

        number = min(_MOST_CALLS, max(1, math.ceil(repeat_ms / 1e3 / max(self._estimate_secs, 1e-9))))
        timer = self._module.time_evaluator("main", tvm.cpu(), number=number, repeat=1)
        mean = float(timer(*self.arguments).mean)
        self._estimate_secs = mean
        self.repeats.append(mean)


def _evaluate(order: dict[str, Any]) -> list[dict[str, Any]]:
    load_tvm()
    import tvm
    from tvm.s_tir import Schedule
    from tvm.s_tir.schedule import Trace

    assert os.environ["TVM_NUM_THREADS"] == str(order["target"]["num-cores"])
    # Unbound, two of the threads may share a core for seconds.
    take_cores(sorted(os.sched_getaffinity(0))[: int(order["target"]["num-cores"])])
    target = tvm.target.Target(order["target"])
    untuned = tvm.ir.load_json(order["module"])
    inputs = _inputs(untuned["main"])
    expected = _Kernel(untuned, target, inputs).output
    kernels = []
    for trace in order["traces"]:
        schedule = Schedule(untuned, debug_mask="none")
        if trace is not None:
            Trace.apply_json_to_schedule(trace, schedule)
        kernels.append(_Kernel(schedule.mod, target, inputs))
    for _ in range(order["repeats"]):
        for kernel in kernels:
            kernel.repeat(order["repeat_ms"])
    _flushed(kernels, order["flushed_calls"])
    scale = max(float(np.abs(expected).max()), 1e-30)
    return [
        {
            "repeats": kernel.repeats,
            "flushed": kernel.flushed,
            "difference": float(np.abs(kernel.output - expected).max()) / scale,
        }
        for kernel in kernels
    ]


def _flushed(kernels: Sequence[_Kernel], calls: int) -> None:
    buffer = np.zeros(_FLUSH_BYTES, dtype=np.uint8)
    for _ in range(calls):
        for kernel in kernels:
            buffer += 1
            kernel.flushed.append(kernel.once())


def _inputs(function: Any) -> list[Any]:
    """Uniform in [0, 1) for every parameter, outputs too: a kernel must overwrite them."""
    generator = np.random.default_rng(0)
    return [
        generator.random(tuple(int(extent) for extent in parameter.ty.shape), dtype="float32")
        for parameter in function.params
    ]


if __name__ == "__main__":
    main()
