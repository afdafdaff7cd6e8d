"""`python -m bench device`: what a candidate costs on its way through a worker, beside what LLVM alone takes.

Random candidates go through the worker's own Measurer, without service and search. The floor is what no
worker on this machine can save: LLVM's seconds a candidate, over the cores.
"""

import argparse
import json
import statistics
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from bench import build_stages, candidates, machine, report, suite
from bench.measuring import measuring
from workers.messages import MeasurePolicy

#: Measured before the clock starts: the fork server, the reference and the disk's cache are warm then.
_WARM_UP = 4
#: Traces whose build is taken apart.
_SAMPLE = 16
_LLVM = ("LLVM IR", "machine code")
_STAGES = ("start", "replay", "build", "wait", "load", "check", "measure", "end")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workloads", default="GMM-512,C2D-a,SFM")
    parser.add_argument("--count", type=int, default=32, help="candidates of each workload")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--policy", type=json.loads, default={}, help="overrides of MeasurePolicy, as JSON")
    parser.add_argument("--dry", action="store_true", help="leave docs/ as it is")


def main(arguments: argparse.Namespace) -> int:
    policy = MeasurePolicy(**arguments.policy)
    results = []
    for name in arguments.workloads.split(","):
        if name not in suite.names():
            raise SystemExit(f"no workload {name}; known are {', '.join(suite.names())}")
        drawn = candidates.draw(name, count=arguments.count + _WARM_UP, seed=arguments.seed)
        target = drawn["target"]
        results.append({"workload": name, **_walk(drawn, policy)})
    text = table(results, report.measured_on(target))
    print(text)
    report.write_json("device.json", {"commit": machine.commit(), "results": results})
    if not arguments.dry:
        report.write_section("device", text)
    return 0


def table(results: Sequence[Mapping[str, Any]], where: str) -> str:
    """Markdown."""
    head = ["workload", "candidates", "wall-clock", *_STAGES, "LLVM", "floor", "× floor"]
    rows = [
        [
            *(result["workload"], str(result["count"]), f"{result['wall_ms']:.0f}"),
            *(f"{result['stage_ms'].get(stage, 0.0):.1f}" for stage in _STAGES),
            *(f"{result['llvm_ms']:.0f}", f"{result['floor_ms']:.0f}"),
            f"{result['wall_ms'] / result['floor_ms']:.2f}",
        ]
        for result in results
    ]
    words = (
        f"{where}. ms a candidate; stages are summed over processes (builds run side by side, `wait` is a "
        "built candidate that waits for the device); LLVM as measured on a quiet core, floor: LLVM over the "
        "cores."
    )
    return "\n".join([words, "", *report.markdown_table(head, rows)])


def _walk(drawn: Mapping[str, Any], policy: MeasurePolicy) -> dict[str, Any]:
    with measuring(drawn["target"]) as worker:
        worker.outcomes(drawn["module"], drawn["traces"][:_WARM_UP], policy)
        traces = drawn["traces"][_WARM_UP:]
        began = time.monotonic()
        outcomes = list(worker.outcomes(drawn["module"], traces, policy))
        wall_secs = time.monotonic() - began
    spent: Counter[str] = Counter()
    for outcome in outcomes:
        spent.update(outcome.stage_secs)
    stages = build_stages.mean_secs(
        drawn["module"],
        [json.loads(trace) for trace in traces[:: max(1, len(traces) // 16)]],
        drawn["target"],
    )
    llvm_ms = 1e3 * sum(stages[name] for name in _LLVM)
    return {
        "count": len(outcomes),
        "outcomes": dict(Counter(str(outcome.outcome) for outcome in outcomes)),
        "wall_ms": 1e3 * wall_secs / len(outcomes),
        "stage_ms": {stage: 1e3 * secs / len(outcomes) for stage, secs in spent.items()},
        "repeats": statistics.fmean(len(outcome.run_secs or ()) for outcome in outcomes),
        "build_stages": stages,
        "llvm_ms": llvm_ms,
        "floor_ms": llvm_ms / int(drawn["target"]["num-cores"]),
    }
