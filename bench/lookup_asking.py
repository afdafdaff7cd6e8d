"""A process that asks: it opens a database, asks for one workload, then for a model of 25, and says how long.

`python -m bench.lookup_asking stock DIR COUNT`, or `ours URL TOKEN CACHE_DIR COUNT`. TVM and httpx are
loaded, and what that left is collected, before anything is timed.
"""

import gc
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from bench.lookup_content import TARGET, function

MODEL_TASKS = 25


class _Counting(httpx.HTTPTransport):
    count = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        type(self).count += 1
        return super().handle_request(request)


def main() -> None:
    import tvm
    from tvm.s_tir.meta_schedule.database import JSONDatabase

    import tilefarm
    import tilefarm.database
    from tilefarm import module

    kind, count = sys.argv[1], int(sys.argv[-1])
    modules = [tvm.IRModule({"main": function(number)}) for number in _asked(count)]
    transport = _Counting(verify=False)
    hashing = _timed(lambda: [module.workload_of(mod) for mod in modules[1:]])
    # Else Python looks through all that importing TVM left during some question: a tenth of a second.
    gc.collect()
    before = _resident_bytes()
    began = time.perf_counter()
    if kind == "stock":
        database: Any = JSONDatabase(work_dir=sys.argv[2])
    else:
        database = tilefarm.connect(
            sys.argv[2],
            sys.argv[3],
            cache_dir=sys.argv[4],
            transport=transport,
            timeout_secs=60,
        )
    target = tvm.target.Target(TARGET)
    opened = time.perf_counter() - began
    assert database.query_tuning_record(modules[0], target, "main") is not None
    first = time.perf_counter() - began
    requests_first = _Counting.count
    if kind == "ours":
        whole = tvm.IRModule({f"f{i}": mod["main"] for i, mod in enumerate(modules[1:])})
        model = _timed(lambda: _ask_prefetched(database, whole, modules[1:], target))
    else:
        model = _timed(lambda: _ask(database, modules[1:], target))
    again = _timed(lambda: _ask(database, modules[1:], target))
    print(
        json.dumps(
            {
                "open_secs": opened,
                "first_secs": first,
                "model_secs": model,
                "again_secs": again,
                "hashing_secs": hashing,
                "requests_first": requests_first,
                "requests_model": _Counting.count - requests_first,
                "grown_bytes": _resident_bytes() - before,
                "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10,
            }
        )
    )
    sys.stdout.flush()
    os._exit(0)


def _asked(count: int) -> list[int]:
    """One workload and a model's, spread over all."""
    return [count // 2, *(1 + task * (count - 2) // MODEL_TASKS for task in range(MODEL_TASKS))]


def _ask_prefetched(database: Any, whole: Any, modules: list[Any], target: Any) -> None:
    database.prefetch(whole, target)
    _ask(database, modules, target)


def _ask(database: Any, modules: list[Any], target: Any) -> None:
    for mod in modules:
        assert database.query_tuning_record(mod, target, "main") is not None


def _timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def _resident_bytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmRSS:"))) << 10


if __name__ == "__main__":
    main()
