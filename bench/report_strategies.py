"""The table of `python -m bench strategies`. Pure: results in, Markdown out."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from bench.report import micros

_MILESTONES = (0.25, 0.5, 1.0)


def table(results: Mapping[str, Any]) -> str:
    """Evolution against random search, then where the seconds of a job went."""
    runs: Sequence[Mapping[str, Any]] = results["runs"]
    flops = results["flops"]
    trials = results["trials"]
    head = [f"after {max(1, round(part * trials))} trials, µs" for part in _MILESTONES]
    untuned = micros(results["untuned_secs"])
    lines = [
        f"{results['workload']}, {trials} trials a run; {results['measured_on']}.",
        f"The untuned module takes {untuned} µs.",
        "",
        f"| strategy | seed | {' | '.join(head)} | final, careful, µs | GFLOP/s | wall, s | not ok |",
        "|---" * (len(head) + 6) + "|",
    ]
    for run in sorted(runs, key=lambda run: (run["strategy"], run["seed"])):
        best = [_at(run["curve"], round(part * trials)) for part in _MILESTONES]
        failed = sum(count for outcome, count in run["outcomes"].items() if outcome != "ok")
        lines.append(
            f"| {run['strategy']} | {run['seed']} | {' | '.join(micros(secs) for secs in best)} "
            f"| {run['careful_secs'] * 1e6:.1f} | {flops / run['careful_secs'] / 1e9:.0f} "
            f"| {run['wall_secs']:.1f} | {failed} |"
        )
    return "\n".join([*lines, "", _ratio(runs), "", *_stages(runs)])


def _ratio(runs: Sequence[Mapping[str, Any]]) -> str:
    medians = {
        strategy: statistics.median(run["careful_secs"] for run in runs if run["strategy"] == strategy)
        for strategy in ("evolutionary", "random")
    }
    ratio = medians["random"] / medians["evolutionary"]
    return (
        f"Median over the seeds: random {micros(medians['random'])} µs, "
        f"evolutionary {micros(medians['evolutionary'])} µs: {ratio:.2f}× as fast."
    )


def _stages(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Seconds by stage, summed over processes: they may exceed the wall-clock."""
    names = sorted({name for run in runs for name in run["stage_secs"]})
    lines = [f"| stage, s | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for strategy in ("evolutionary", "random"):
        mine = [run["stage_secs"] for run in runs if run["strategy"] == strategy]
        means = [statistics.mean(stage.get(name, 0.0) for stage in mine) for name in names]
        lines.append(f"| {strategy}, mean | {' | '.join(f'{secs:.1f}' for secs in means)} |")
    return lines


def _at(curve: Sequence[float | None], trials: int) -> float | None:
    return curve[min(trials, len(curve)) - 1] if curve else None
