"""`python -m bench strategies`: evolution against random search at equal trials, and where seconds go.

Both run on one embedded service, one job at a time, A and B interleaved, each with its own isolation key.
Final schedules are timed by the careful evaluator.
"""

import argparse
import json
import sys
import time
from typing import Any

from bench import evaluate, report, report_strategies, suite
from bench.farm import Farm, running_farm
from bench.suite import Workload

STRATEGIES = ("evolutionary", "random")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workloads", default="GMM-512,CBR", help="names, one table for each")
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--seeds", type=int, default=3)


def main(arguments: argparse.Namespace) -> int:
    names = arguments.workloads.split(",")
    if unknown := sorted(set(names) - set(suite.names())):
        raise SystemExit(f"no workload {', '.join(unknown)}; known are {', '.join(suite.names())}")
    results = [_compare(suite.workload(name), arguments) for name in names]
    text = "\n\n".join(report_strategies.table(each) for each in results)
    print(text)
    report.write_json("strategies.json", {"workloads": results})
    report.write_section("strategies", text)
    return 0


def _order(seed: int) -> tuple[str, ...]:
    """A and B change places from seed to seed."""
    return STRATEGIES if seed % 2 == 0 else STRATEGIES[::-1]


def _compare(workload: Workload, arguments: argparse.Namespace) -> dict[str, Any]:
    with running_farm() as farm:
        runs = [
            _run(farm, workload, strategy=strategy, seed=seed, trials=arguments.trials)
            for seed in range(arguments.seeds)
            for strategy in _order(seed)
        ]
        target = farm.target
    traces = {f"{run['strategy']}-{run['seed']}": run["trace"] for run in runs}
    times = evaluate.timed(workload.module, {"untuned": None, **traces}, target, evaluate.Care())
    for run in runs:
        run["careful_secs"] = times[f"{run['strategy']}-{run['seed']}"].secs
    return {
        "workload": workload.name,
        "trials": arguments.trials,
        "target": target,
        "measured_on": report.measured_on(target),
        "untuned_secs": times["untuned"].secs,
        "flops": workload.flops,
        "runs": runs,
        "times": {name: time.repeats for name, time in times.items()},
    }


def _run(farm: Farm, workload: Workload, *, strategy: str, seed: int, trials: int) -> dict[str, Any]:
    began = time.monotonic()
    name = f"bench-{strategy}-{seed}"
    job = farm.tune(
        {
            "name": name,
            "module": json.loads(workload.module),
            "target": "local",
            "max_trials": trials,
            "strategy": strategy,
            "seed": seed,
            "options": {"isolation_key": name},
        }
    )
    wall_secs = time.monotonic() - began
    print(f"{strategy:>13} seed {seed}: {wall_secs:6.1f} s", file=sys.stderr, flush=True)
    return {
        "strategy": strategy,
        "seed": seed,
        "wall_secs": wall_secs,
        "outcomes": job["outcomes"],
        "stage_secs": job["stage_secs"],
        "published_secs": job["tasks"][0]["best_latency_secs"],
        "curve": farm.best_so_far(job["id"]),
        "trace": farm.own_best_trace(job["id"]),
    }
