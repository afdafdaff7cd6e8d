"""Cached runs of stock `ms.tune_tir`, each kept with the machine it was measured on.

A run takes minutes and does not change with our code. A machine's speed changes with the hour, though: a pair
whose stock run came from here says so.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What both sides share."""

    target: Mapping[str, Any]
    trials: int
    #: Stock's num_trials_per_iter.
    batch: int


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
    fresh = one_run.run(
        {
            "side": "stock",
            "workload": workload.name,
            "module": workload.module,
            "target": dict(conditions.target),
            "trials": conditions.trials,
            "batch": conditions.batch,
            "seed": seed,
        }
    )
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


def _conditions(conditions: Conditions) -> dict[str, Any]:
    return {"target": dict(conditions.target), "trials": conditions.trials, "batch": conditions.batch}
