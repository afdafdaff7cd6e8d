"""One careful evaluator for all: schedules of one workload, built and timed interleaved in one process.

It knows nothing of the service; it sees modules and traces. Times are the median over repeats, seconds.
"""

import os
import statistics
from collections.abc import Mapping
from typing import Any

import numpy as np

from tuner.tvm_light import load_tvm

_REPEATS = 15
_REPEAT_MS = 50


def latencies_secs(
    module_json: str, traces: Mapping[str, Any], target: Mapping[str, Any]
) -> dict[str, list[float]]:
    """Times of each named trace (None: the untuned module), one float per repeat, taken in turn."""
    # Before TVM's thread pool starts: left alone it takes half of the host's cores.
    os.environ["TVM_NUM_THREADS"] = str(target["num-cores"])
    load_tvm()
    import tvm
    from tvm.s_tir import Schedule
    from tvm.s_tir.schedule import Trace

    tvm_target = tvm.target.Target(dict(target))
    evaluators = {}
    arguments: dict[str, Any] = {}
    for name, trace in traces.items():
        schedule = Schedule(tvm.ir.load_json(module_json), debug_mask="none")
        if trace is not None:
            Trace.apply_json_to_schedule(trace, schedule)
        library = tvm.compile(schedule.mod, tvm_target)
        evaluators[name] = library.mod.time_evaluator(
            "main", tvm.cpu(), number=1, repeat=1, min_repeat_ms=_REPEAT_MS
        )
        arguments[name] = _inputs(schedule.mod["main"])
    times: dict[str, list[float]] = {name: [] for name in traces}
    for _ in range(_REPEATS):
        for name, evaluate in evaluators.items():
            times[name].append(evaluate(*arguments[name]).mean)
    return times


def median_secs(times: Mapping[str, list[float]]) -> dict[str, float]:
    return {name: statistics.median(values) for name, values in times.items()}


def _inputs(function: Any) -> list[Any]:
    import tvm

    generator = np.random.default_rng(0)
    arrays = []
    for parameter in function.params:
        shape = tuple(int(extent) for extent in parameter.shape)
        values = generator.random(shape, dtype="float32").astype(str(parameter.dtype))
        arrays.append(tvm.runtime.tensor(values))
    return arrays
