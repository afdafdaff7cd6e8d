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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.buildable import LIMIT_SECS, unbuildable
from bench.processes import BenchError, ask, check_threads, order_and_answer, threads_of
from tuner.tvm_light import load_tvm
from workers.selftest_kernels import build_roofline, float_lanes, fma_flops, fma_width
from workers.timing import take_cores

_FLUSH_BYTES = 64 << 20
_MOST_CALLS = 100_000
#: Single calls of each kernel and of the peak, between which the host's other users come and go.
_SINGLE_CALLS, _SINGLE_SECS = 40, 0.1
#: Bytes that one repeat of the copy moves, at least.
_COPIED_BYTES = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Care:
    """How carefully one process times each schedule."""

    repeats: int = 10
    repeat_ms: float = 50.0
    #: Single calls, each after 64 MiB were written; 0: none.
    flushed_calls: int = 0
    processes: int = 1


#: For finals; and for the many points of a curve.
#: What a process gets (pages, cores, neighbours) differs by more than its own repeats do: many processes.
FINAL = Care(repeats=5, flushed_calls=6, processes=6)
CURVE = Care(repeats=5, repeat_ms=20.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """Seconds per call of one schedule."""

    #: One mean per repeat, over all processes.
    repeats: tuple[float, ...]
    flushed: tuple[float, ...]
    #: Largest difference to the untuned output, relative to the largest output.
    difference: float
    #: GFLOP/s of multiply-adds in registers on all of the target's cores, measured between the repeats.
    peak_gflops: float
    #: Each of one call, and GFLOP/s of as many multiply-adds in registers: what a shared host leaves varies.
    singles: tuple[float, ...]
    peak_singles: tuple[float, ...]
    #: GB/s of a copy that reads and writes, together, as many bytes as the parameters have; so measured too.
    copy_gb_per_sec: float

    @property
    def secs(self) -> float:
        return statistics.median(self.repeats)

    @property
    def quiet_secs(self) -> float:
        """Of one call in a quiet moment: one in ten takes less."""
        return float(np.quantile(self.singles, 0.1))

    @property
    def quiet_peak_gflops(self) -> float:
        return float(np.quantile(self.peak_singles, 0.9))

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
    beside: Callable[[], None] = lambda: None,
) -> dict[str, Timed]:
    """Times of each named trace (None: the untuned module); `beside()` is called around each process.

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
    threads = threads_of(target)
    told = []
    beside()
    for _ in range(care.processes):
        told.append(ask("bench.evaluate", order, env=threads))
        beside()
    answers = [each["kernels"] for each in told]
    return {
        name: Timed(
            repeats=tuple(secs for answer in answers for secs in answer[index]["repeats"]),
            flushed=tuple(secs for answer in answers for secs in answer[index]["flushed"]),
            difference=max(answer[index]["difference"] for answer in answers),
            peak_gflops=_median_of(told, "peak_gflops"),
            singles=tuple(secs for answer in answers for secs in answer[index]["singles"]),
            peak_singles=tuple(gflops for each in told for gflops in each["peak_singles"]),
            copy_gb_per_sec=_median_of(told, "copy_gb_per_sec"),
        )
        for index, name in enumerate(names)
    }


def _median_of(told: Sequence[Mapping[str, Any]], name: str) -> float:
    return float(statistics.median(value for each in told for value in each[name]))


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
        self.singles: list[float] = []
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

    def single(self) -> None:
        """Calls one by one, after the repeats."""
        import tvm

        calls = min(_SINGLE_CALLS, max(3, round(_SINGLE_SECS / max(self._estimate_secs, 1e-9))))
        timer = self._module.time_evaluator("main", tvm.cpu(), number=1, repeat=calls)
        self.singles += [float(secs) for secs in timer(*self.arguments).results]


class _Roofline:
    """What the cores can do at this moment: a shared machine has slow ones."""

    def __init__(self, target: Mapping[str, Any], inputs: Sequence[Any]) -> None:
        import tvm

        cores, lanes = int(target["num-cores"]), float_lanes(dict(target))
        n_bytes = sum(array.nbytes for array in inputs)
        elements = max(1, n_bytes // (8 * lanes * cores)) * lanes * cores
        self._module = build_roofline(dict(target), elements=elements, cores=cores)
        shape = (cores, fma_width(lanes))
        arrays = (np.ones(shape), np.full(2 * lanes, 0.5), np.zeros(shape))
        self._fma = [tvm.runtime.tensor(array.astype(np.float32)) for array in arrays]
        self._copy = [tvm.runtime.tensor(np.ones(elements, dtype=np.float32)) for _ in range(2)]
        self._flops = fma_flops(cores, lanes)
        self.peak_gflops: list[float] = []
        self.peak_singles: list[float] = []
        self.copy_gb_per_sec: list[float] = []

    def single(self) -> None:
        for _ in range(_SINGLE_CALLS):
            self.peak_singles.append(self._peak())

    def _peak(self) -> float:
        return self._flops / self._secs("fma_all", self._fma, number=1) / 1e9

    def repeat(self) -> None:
        self.peak_gflops.append(self._peak())
        copied = 8 * int(self._copy[0].shape[0])
        number = max(1, _COPIED_BYTES // copied)
        self.copy_gb_per_sec.append(copied / self._secs("copy_all", self._copy, number=number) / 1e9)

    def _secs(self, name: str, arguments: Sequence[Any], *, number: int) -> float:
        import tvm

        return float(self._module.time_evaluator(name, tvm.cpu(), number=number, repeat=1)(*arguments).mean)


def _evaluate(order: dict[str, Any]) -> dict[str, Any]:
    load_tvm()
    import tvm
    from tvm.s_tir import Schedule
    from tvm.s_tir.schedule import Trace

    check_threads(order["target"])
    # Unbound, two of the threads may share a core for seconds.
    take_cores(sorted(os.sched_getaffinity(0))[: int(order["target"]["num-cores"])])
    target = tvm.target.Target(order["target"])
    untuned = tvm.ir.load_json(order["module"])
    inputs = _inputs(untuned["main"])
    expected = _output(untuned, target, inputs)
    kernels = []
    for trace in order["traces"]:
        schedule = Schedule(untuned, debug_mask="none")
        if trace is not None:
            Trace.apply_json_to_schedule(trace, schedule)
        kernels.append(_Kernel(schedule.mod, target, inputs))
    roofline = _Roofline(order["target"], inputs)
    for _ in range(order["repeats"]):
        roofline.repeat()
        for kernel in kernels:
            kernel.repeat(order["repeat_ms"])
    roofline.single()
    for kernel in kernels:
        kernel.single()
    _flushed(kernels, order["flushed_calls"])
    scale = max(float(np.abs(expected).max()), 1e-30)
    found = [
        {
            "repeats": kernel.repeats,
            "singles": kernel.singles,
            "flushed": kernel.flushed,
            "difference": float(np.abs(kernel.output - expected).max()) / scale,
        }
        for kernel in kernels
    ]
    return {
        "kernels": found,
        "peak_gflops": roofline.peak_gflops,
        "peak_singles": roofline.peak_singles,
        "copy_gb_per_sec": roofline.copy_gb_per_sec,
    }


def _output(module: Any, target: Any, inputs: Sequence[Any]) -> Any:
    """Of one call: untuned, it may take seconds."""
    import tvm

    arguments = [tvm.runtime.tensor(array) for array in inputs]
    tvm.compile(module, target)["main"](*arguments)
    return arguments[-1].numpy()


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
        generator.random(tuple(int(extent) for extent in parameter.ty.shape), dtype="float32").astype(
            str(parameter.ty.dtype)
        )
        for parameter in function.params
    ]


if __name__ == "__main__":
    main()
