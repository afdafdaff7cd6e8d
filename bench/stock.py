"""Cached runs of stock `ms.tune_tir`, each kept with the machine it was measured on.

A run takes minutes and does not change with our code. Whether the machine still behaves as it did then is
asked each time by a short run (`check`), never assumed.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import one_run
from bench.curves import Run
from bench.machine import Machine
from bench.report import RESULTS
from bench.suite import Workload

#: Counts up when what is kept, or how stock is run, changes.
_FORMAT = 1
#: A machine that differs by more from its own past does not give comparable seconds.
HOLDS_WITHIN = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What both sides share."""

    target: Mapping[str, Any]
    trials: int
    #: Stock's num_trials_per_iter.
    batch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A short run beside the same part of a cached one."""

    workload: str
    trials: int
    cached_secs: float
    now_secs: float

    @property
    def holds(self) -> bool:
        return abs(self.now_secs / self.cached_secs - 1.0) <= HOLDS_WITHIN


def cache_path(machine: Machine, workload: str, conditions: Conditions, seed: int) -> Path:
    name = f"{workload}-{conditions.trials}-{seed}.json"
    return RESULTS / "stock" / machine.key / name


def cached(machine: Machine, workload: str, conditions: Conditions, seed: int) -> Run | None:
    """None where there is none, or where it was run under other conditions."""
    path = cache_path(machine, workload, conditions, seed)
    if not path.exists():
        return None
    kept = json.loads(path.read_text())
    if kept.get("format") != _FORMAT or kept["conditions"] != _conditions(conditions):
        return None
    return Run.from_json(kept["run"])


def run(machine: Machine, workload: Workload, conditions: Conditions, seed: int) -> Run:
    """A fresh run, which replaces what was cached."""
    fresh = _run(workload, conditions, seed, trials=conditions.trials)
    path = cache_path(machine, workload.name, conditions, seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = {
        "format": _FORMAT,
        "machine": str(machine),
        "conditions": _conditions(conditions),
        "run": fresh.as_json(),
    }
    path.write_text(json.dumps(kept))
    return fresh


def check(workload: Workload, conditions: Conditions, kept: Run) -> Check | None:
    """Stock's first batch again, beside the time at which the cached run knew its first batch."""
    if kept.first_secs is None:
        return None
    batch = min(conditions.batch, conditions.trials)
    fresh = _run(workload, conditions, kept.seed, trials=batch)
    if fresh.first_secs is None:
        return None
    return Check(workload=workload.name, trials=batch, cached_secs=kept.first_secs, now_secs=fresh.first_secs)


def _run(workload: Workload, conditions: Conditions, seed: int, *, trials: int) -> Run:
    return one_run.run(
        {
            "side": "stock",
            "workload": workload.name,
            "module": workload.module,
            "target": dict(conditions.target),
            "trials": trials,
            "batch": conditions.batch,
            "seed": seed,
        }
    )


def _conditions(conditions: Conditions) -> dict[str, Any]:
    return {"target": dict(conditions.target), "trials": conditions.trials, "batch": conditions.batch}
