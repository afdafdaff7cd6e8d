"""`python -m bench space`: stock's design space against ours at equal trials, workload by workload.

One embedded service, one job at a time, spaces interleaved over the seeds, each with its own isolation key.
The fastest trial of each is timed again by the careful evaluator, all in the same processes.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from bench import evaluate, report, suite, unseen
from bench.farm import Farm, running_farm
from bench.report import micros, number
from bench.suite import Workload

Run = Mapping[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workloads", default="C2D-a", help="names, or `suite`, `extension`, `unseen`")
    parser.add_argument("--space", default="stock,tilefarm", help="names of spaces; the first is the base")
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--peak", type=float, help="FMA peak in GFLOP/s; `tilefarm-server selftest` tells it")
    parser.add_argument("--dry", action="store_true", help="leave docs/ as it is")


def main(arguments: argparse.Namespace) -> int:
    spaces = tuple(arguments.space.split(","))
    kept = _kept()
    with running_farm() as farm:
        for name in _names(arguments.workloads):
            found = _compared(farm, _workload(name), spaces, arguments)
            kept[f"{name} {arguments.trials}"] = found
            report.write_json("space.json", kept)
            print(_table([found], spaces), flush=True)
    if not arguments.dry:
        report.write_section("space", _table(list(kept.values()), spaces))
    return 0


def _kept() -> dict[str, Any]:
    """Earlier results: a table grows workload by workload."""
    path = report.RESULTS / "space.json"
    return dict(json.loads(path.read_text())) if path.exists() else {}


def _names(asked: str) -> tuple[str, ...]:
    groups = {
        "suite": tuple(suite.DEVELOPMENT),
        "extension": tuple(suite.EXTENSION),
        "unseen": tuple(unseen.UNSEEN),
    }
    return groups.get(asked) or tuple(asked.split(","))


def _workload(name: str) -> Workload:
    return unseen.unseen(name) if name in unseen.UNSEEN else suite.workload(name)


def _compared(
    farm: Farm, workload: Workload, spaces: Sequence[str], arguments: argparse.Namespace
) -> dict[str, Any]:
    runs = [
        _run(farm, workload, space=space, seed=seed, trials=arguments.trials)
        for seed in range(arguments.seeds)
        for space in (spaces if seed % 2 == 0 else spaces[::-1])
    ]
    traces = {f"{run['space']} {run['seed']}": run["trace"] for run in runs}
    times = evaluate.timed(workload.module, traces, farm.target, evaluate.CURVE)
    for run in runs:
        timed = times[f"{run['space']} {run['seed']}"]
        run |= {"careful_secs": timed.secs, "difference": timed.difference}
    return {
        "workload": workload.name,
        "flops": workload.flops,
        "trials": arguments.trials,
        "peak_gflops": arguments.peak,
        "runs": runs,
    }


def _run(farm: Farm, workload: Workload, *, space: str, seed: int, trials: int) -> dict[str, Any]:
    began = time.monotonic()
    name = f"bench-{workload.name}-{space}-{seed}"
    job = farm.tune(
        {
            "name": name,
            "module": json.loads(workload.module),
            "target": "local",
            "max_trials": trials,
            "space": space,
            "seed": seed,
            "options": {"isolation_key": name},
        }
    )
    wall_secs = time.monotonic() - began
    print(f"{name}: {wall_secs:.1f} s", file=sys.stderr, flush=True)
    return {
        "space": space,
        "seed": seed,
        "wall_secs": wall_secs,
        "search_secs": float(job["stage_secs"].get("search", 0.0)),
        "outcomes": job["outcomes"],
        "trace": farm.own_best_trace(job["id"]),
    }


def _table(results: Sequence[Mapping[str, Any]], spaces: Sequence[str]) -> str:
    head = ["workload", "trials", "seeds", "space", "best, µs (least–most)", "GFLOP/s", "% of peak"]
    rows = []
    for found in results:
        base = _median(found, spaces[0], "careful_secs")
        for space in dict.fromkeys(run["space"] for run in found["runs"]):
            mine = [run for run in found["runs"] if run["space"] == space]
            rows.append(
                [found["workload"], str(found["trials"]), str(len(mine)), space, *_cells(found, mine, base)]
            )
    return "\n".join(report.markdown_table([*head, "× base", "search, s", "wall, s", "not ok"], rows))


def _cells(found: Mapping[str, Any], mine: Sequence[Run], base: float | None) -> list[str]:
    secs = [run["careful_secs"] for run in mine]
    median = statistics.median(secs)
    gflops = found["flops"] / median / 1e9
    peak = found["peak_gflops"]
    failed = sum(count for run in mine for outcome, count in run["outcomes"].items() if outcome != "ok")
    return [
        f"{micros(median)} ({micros(min(secs))}–{micros(max(secs))})",
        number(gflops, 0),
        number(100 * gflops / peak if peak else None, 0),
        number(base / median if base else None, 2),
        number(statistics.median(run["search_secs"] for run in mine)),
        number(statistics.median(run["wall_secs"] for run in mine)),
        str(failed),
    ]


def _median(found: Mapping[str, Any], space: str, field: str) -> float | None:
    values = [float(run[field]) for run in found["runs"] if run["space"] == space]
    return statistics.median(values) if values else None
