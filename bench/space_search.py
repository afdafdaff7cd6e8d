"""What a search of `python -m bench space` found: ours in a named space, or stock's own `ms.tune_tir`."""

import json
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench import machine, stock
from bench.farm import Farm, epoch_secs, fastest, searched
from bench.processes import BenchError
from bench.suite import Workload

#: Among the spaces: stock's space and stock's search.
TUNE_TIR = "tune_tir"
_BATCH = 64
#: Of which one is chosen.
_FASTEST = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What the first so many trials of a search found."""

    #: None where it is not known how long these alone took; so also of the next.
    wall_secs: float | None
    search_secs: float | None
    outcomes: dict[str, int]
    #: Of the fastest, by the name of their trial.
    traces: dict[str, Any]


def of_space(
    farm: Farm, workload: Workload, *, space: str, seed: int, marks: Sequence[int]
) -> dict[int, Found]:
    """By trials. Raises BenchError where none ran."""
    began = time.monotonic()
    name = f"bench-{workload.name}-{space}-{seed}"
    job = farm.tune(
        {
            "name": name,
            "module": json.loads(workload.module),
            "target": "local",
            "max_trials": max(marks),
            "space": space,
            "seed": seed,
            "options": {"isolation_key": name},
        }
    )
    wall_secs = time.monotonic() - began
    print(f"{name}: {wall_secs:.1f} s", file=sys.stderr, flush=True)
    trials = searched(farm.trials(job["id"]))
    found = {}
    for mark in marks:
        whole, some = mark == max(marks), trials[:mark]
        best = fastest(some)[:_FASTEST]
        if not best:
            raise BenchError(f"no trial of {name} ran")
        ended = max(epoch_secs(trial["done_at"]) for trial in some)
        found[mark] = Found(
            wall_secs=wall_secs if whole else ended - epoch_secs(job["created_at"]),
            search_secs=float(job["stage_secs"].get("search", 0.0)) if whole else None,
            outcomes=dict(Counter(trial["outcome"] for trial in some)),
            traces={f"trial {trial['id']} of {space}": farm.trial_trace(trial["id"]) for trial in best},
        )
    return found


def of_tune_tir(
    workload: Workload, target: Mapping[str, Any], *, seed: int, marks: Sequence[int]
) -> dict[int, Found]:
    """By trials; from the cache where such a run is known. Raises BenchError where none ran."""
    here = machine.this_machine()
    conditions = stock.Conditions(target=target, trials=max(marks), batch=_BATCH)
    run = stock.cached(here, workload.name, conditions, seed) or stock.run(here, workload, conditions, seed)
    found = {}
    for mark in marks:
        whole = mark == max(marks)
        best = [point for point in run.points if point.trials <= mark][-_FASTEST:]
        if not best:
            raise BenchError(f"no trial of stock's on {workload.name} ran")
        found[mark] = Found(
            wall_secs=run.wall_secs if whole else None,
            search_secs=run.stage_secs.get("search") if whole else None,
            outcomes=run.outcomes if whole else {},
            traces={f"trial {point.trials} of {TUNE_TIR}": point.trace for point in best},
        )
    return found
