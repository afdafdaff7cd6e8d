"""The least time a workload can take on a device: its work over the device's measured peak. Pure.

The peak comes from the self-test of a worker that serves the target. Memory counts only where the arguments
do not fit into the last cache: within it the copy bandwidth is no bound.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from db.workers import Worker

_BITS_PER_BYTE = 8
_DTYPE_BITS = {"bool": 8, "bfloat16": 16}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    secs: float
    #: Which part of the device bounds it, and by how much: `522 GFLOP/s`.
    says: str


def bound(
    workers: Iterable[Worker], *, target_key: str, flops: float, args: Sequence[Mapping[str, Any]]
) -> Bound | None:
    """By the self-test of the worker of this target heard of last; None where none has tested itself."""
    tested = [worker for worker in workers if worker.target_key == target_key and _told(worker)]
    if not tested:
        return None
    newest = max(tested, key=lambda worker: worker.heartbeat_at)
    cores = "one_core" if newest.cores == 1 else "all_cores"
    test = _told(newest)
    bounds = []
    # A GPU is measured as a whole, however many cores drive it.
    peak, bandwidth = (
        _positive(test, f"{name}_{cores}") or _positive(test, f"{name}_all_cores")
        for name in ("fma_gflops", "copy_gb_per_sec")
    )
    if peak and flops > 0:
        bounds.append(Bound(secs=flops / (peak * 1e9), says=f"{peak:,.0f} GFLOP/s"))
    size, cache = argument_bytes(args), _positive(test, "last_cache_bytes")
    if bandwidth and cache and size > cache:
        bounds.append(Bound(secs=size / (bandwidth * 1e9), says=f"{bandwidth:,.0f} GB/s"))
    return max(bounds, key=lambda each: each.secs, default=None)


def argument_bytes(args: Sequence[Mapping[str, Any]]) -> int:
    return sum(math.prod(arg["shape"]) * dtype_bits(arg["dtype"]) // _BITS_PER_BYTE for arg in args)


def dtype_bits(dtype: str) -> int:
    """`float32` → 32, `float8_e4m3fn` → 8."""
    if dtype in _DTYPE_BITS:
        return _DTYPE_BITS[dtype]
    digits = "".join(each for each in dtype.partition("_")[0] if each.isdigit())
    return int(digits) if digits else 32


def _told(worker: Worker) -> Mapping[str, Any]:
    """What it says of its self-test; empty where that is nothing that reads."""
    told = worker.facts.get("selftest")
    return told if isinstance(told, dict) else {}


def _positive(test: Mapping[str, Any], name: str) -> float | None:
    value = test.get(name)
    return float(value) if isinstance(value, (int, float)) and value > 0 else None
