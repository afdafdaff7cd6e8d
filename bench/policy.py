"""`python -m bench policy`: whether a search's measure policy ranks as a long careful reference does.

Random candidates of a workload are timed by the worker's own Measurer, in the order of a search, and by the
careful evaluator. A cut-off candidate counts with its bound.
"""

import argparse
import json
import statistics
import time
from collections import Counter
from typing import Any

from bench import agreement, candidates, evaluate, report, suite
from bench.measuring import Measuring, measuring
from db.states import Outcome
from services.tuning.settings import TunerSettings
from workers.messages import MeasurePolicy

_TOP = 8
_CARE = evaluate.Care(repeats=10, repeat_ms=50.0, processes=2)
#: For what is plainly slow: calls of a tenth of a second and more.
_LESS_CARE = evaluate.Care(repeats=1, repeat_ms=20.0)
_PLAINLY_SLOW = 4.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workloads", default="GMM-512,SFM,C2D-a")
    parser.add_argument("--count", type=int, default=32, help="candidates of each workload")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--policy", type=json.loads, default={}, help="overrides of MeasurePolicy, as JSON")
    parser.add_argument("--dry", action="store_true", help="leave docs/ as it is")


def main(arguments: argparse.Namespace) -> int:
    policy = MeasurePolicy(**arguments.policy)
    confirmed: int = TunerSettings.model_fields["confirm_count"].default
    results = []
    for name in arguments.workloads.split(","):
        if name not in suite.names():
            raise SystemExit(f"no workload {name}; known are {', '.join(suite.names())}")
        drawn = candidates.draw(name, count=arguments.count, seed=arguments.seed)
        target = drawn["target"]
        with measuring(target) as fast:
            results.append(_compare(name, drawn, fast, policy, confirmed=confirmed))
    text = table(results, report.measured_on(target))
    print(text)
    report.write_json("policy.json", {"results": results})
    if not arguments.dry:
        report.write_section("policy", text)
    return 0


def table(results: list[dict[str, Any]], where: str) -> str:
    """Markdown."""
    confirmed = results[0]["confirmed"]
    head = [
        "workload",
        "candidates",
        "cut off",
        "faster than their bound",
        "failed",
        "Spearman",
        f"top-{_TOP} recall",
        "regret",
    ]
    head += [f"regret, best {confirmed} confirmed", "device, ms a candidate"]
    rows = [
        [
            *(result["workload"], str(result["count"]), str(result["cut_off"])),
            *(str(result["wrongly_cut_off"]), str(result["failed"])),
            *(f"{result['spearman']:.3f}", f"{result['recall']:.2f}", f"{result['regret']:.3f}"),
            *(f"{result['confirmed_regret']:.3f}", f"{result['device_ms']:.1f}"),
        ]
        for result in results
    ]
    care = (
        f"{_CARE.processes} processes, {_CARE.repeats} repeats of {_CARE.repeat_ms:.0f} ms each, interleaved"
        f"; {_LESS_CARE.repeats} of {_LESS_CARE.repeat_ms:.0f} ms for what takes more than "
        f"{_PLAINLY_SLOW:.0f} times the best"
    )
    words = (
        f"{where}. The search's measure policy against a careful reference ({care}) on random candidates; "
        "regret is the careful latency of what the policy calls best, over the best."
    )
    return "\n".join([words, "", *report.markdown_table(head, rows)])


def _compare(
    name: str, drawn: dict[str, Any], fast: Measuring, policy: MeasurePolicy, *, confirmed: int
) -> dict[str, Any]:
    began = time.monotonic()
    outcomes = fast.outcomes(drawn["module"], drawn["traces"], policy)
    wall_secs = time.monotonic() - began
    timed = [outcome for outcome in outcomes if outcome.run_secs]
    quick = [statistics.median(outcome.run_secs or ()) for outcome in timed]
    careful = _careful_secs(drawn, [outcome.trial_id for outcome in timed])
    stages = [outcome.stage_secs for outcome in timed]
    device_secs = [sum(stage.get(part, 0.0) for part in ("load", "check", "measure")) for stage in stages]
    counts = Counter(outcome.outcome for outcome in outcomes)
    return {
        "workload": name,
        "count": len(timed),
        "cut_off": counts[Outcome.CUT_OFF],
        # The model takes the bound for a truth: these labels mislead it.
        "wrongly_cut_off": sum(
            outcome.outcome == Outcome.CUT_OFF and secs < bound
            for outcome, bound, secs in zip(timed, quick, careful, strict=True)
        ),
        "failed": len(outcomes) - len(timed),
        "outcomes": dict(counts),
        "spearman": agreement.spearman(quick, careful),
        "recall": agreement.recall(quick, careful, count=_TOP),
        "regret": agreement.regret(quick, careful),
        "confirmed": confirmed,
        "confirmed_regret": agreement.regret(quick, careful, confirmed=confirmed),
        "device_ms": 1e3 * statistics.fmean(device_secs),
        "wall_secs": wall_secs,
        "quick_secs": quick,
        "careful_secs": careful,
        "repeats": [len(outcome.run_secs or ()) for outcome in timed],
    }


def _careful_secs(drawn: dict[str, Any], numbers: list[int]) -> list[float]:
    """Of these candidates. A first look at all, by the evaluator too, tells which deserve the full care."""
    traces = {str(number): json.loads(drawn["traces"][number]) for number in numbers}
    times = evaluate.timed(drawn["module"], traces, drawn["target"], _LESS_CARE)
    limit_secs = _PLAINLY_SLOW * min(timed.secs for timed in times.values())
    contenders = {name: traces[name] for name in traces if times[name].secs <= limit_secs}
    times |= evaluate.timed(drawn["module"], contenders, drawn["target"], _CARE)
    return [times[str(number)].secs for number in numbers]
