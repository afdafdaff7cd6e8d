"""`python -m bench space`: stock's design space against ours at equal trials, workload by workload.

One embedded service, one job at a time, spaces interleaved over the seeds, each with its own isolation key.
The fastest trial of each is timed again by the careful evaluator, all in the same processes.
"""

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from bench import evaluate, report, suite, unseen, vendors
from bench.farm import Farm, running_farm
from bench.report import micros, number
from bench.suite import Workload
from tuner.target import detect_local_target

Run = Mapping[str, Any]

#: A process alone may lie on slow pages, or meet a slow moment of a shared machine.
_CARE = evaluate.Care(repeats=6, repeat_ms=20.0, processes=3)
_OTHERS = tuple(f"× {name}" for name in vendors.LIBRARIES)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workloads", default="C2D-a", help="names, or `suite`, `extension`, `unseen`")
    parser.add_argument("--space", default="stock,tilefarm", help="names of spaces; the first is the base")
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--dry", action="store_true", help="leave docs/ as it is")
    parser.add_argument("--again", action="store_true", help="time what is kept again, run no search")
    parser.add_argument("--cores", type=int, help="with --again: on so many cores, and keep what was kept")
    parser.add_argument(
        "--only-table", action="store_true", help="write docs/ from what is kept, run nothing"
    )


def main(arguments: argparse.Namespace) -> int:
    spaces = tuple(arguments.space.split(","))
    kept = _kept()
    if arguments.again:
        _time_again(kept, _names(arguments.workloads), spaces, arguments.cores)
        return 0
    if arguments.only_table:
        report.write_section("space", _summary(list(kept.values()), spaces))
        return 0
    with running_farm() as farm:
        for name in _names(arguments.workloads):
            found = _compared(farm, _workload(name), spaces, arguments)
            kept[f"{name} {arguments.trials}"] = found
            report.write_json("space.json", kept)
            print(_table([found], spaces), flush=True)
    if not arguments.dry:
        report.write_section("space", _summary(list(kept.values()), spaces))
    return 0


def _time_again(kept: dict[str, Any], names: Sequence[str], spaces: Sequence[str], cores: int | None) -> None:
    target = detect_local_target() | ({} if cores is None else {"num-cores": cores})
    for key, found in kept.items():
        if found["workload"] in names:
            kept[key] = _judged(found, _workload(found["workload"]), target)
            print(_table([kept[key]], spaces), flush=True)
            if cores is None:
                report.write_json("space.json", kept)


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
    found = {
        "workload": workload.name,
        "flops": workload.flops,
        "trials": arguments.trials,
        "runs": runs,
    }
    return _judged(found, workload, farm.target)


def _judged(found: dict[str, Any], workload: Workload, target: Mapping[str, Any]) -> dict[str, Any]:
    """With the careful evaluator's times of all its runs, and other libraries' before and after them."""
    before = _of_libraries(found, workload, target)
    traces = {f"{run['space']} {run['seed']}": run["trace"] for run in found["runs"]}
    times = evaluate.timed(workload.module, traces, target, _CARE)
    for run in found["runs"]:
        timed = times[f"{run['space']} {run['seed']}"]
        run |= {"careful_secs": timed.secs, "difference": timed.difference}
    first = next(iter(times.values()))
    found |= {"peak_gflops": first.peak_gflops, "copy_gb_per_sec": first.copy_gb_per_sec}
    found["bytes"] = sum(4 * math.prod(shape) for shape in vendors.shapes(workload.module))
    after = _of_libraries(found, workload, target)
    return found | {f"{name}_secs": _middle(before[name], after[name]) for name in vendors.LIBRARIES}


def _of_libraries(
    found: Mapping[str, Any], workload: Workload, target: Mapping[str, Any]
) -> dict[str, float | None]:
    return {
        name: vendors.secs(name, found["workload"], workload.module, target) for name in vendors.LIBRARIES
    }


def _middle(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else (first + second) / 2


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


def _summary(results: Sequence[Mapping[str, Any]], spaces: Sequence[str]) -> str:
    """The table, and by budget how much faster than the base and than other libraries a space is."""
    lines = [_table(results, spaces), ""]
    for trials in sorted({int(found["trials"]) for found in results}):
        mine = [found for found in results if found["trials"] == trials]
        for space in spaces[1:]:
            gains = {f"`{spaces[0]}`": [_gain(found, spaces[0], space) for found in mine]}
            gains |= {name: [_beside(found, name, space) for found in mine] for name in vendors.LIBRARIES}
            lines += [_words(known, trials, space, other) for other, known in gains.items() if any(known)]
    return "\n".join(lines)


def _words(gains: Sequence[float | None], trials: int, space: str, other: str) -> str:
    known = [gain for gain in gains if gain]
    mean = statistics.geometric_mean(known)
    return (
        f"{trials} trials, {len(known)} workloads: `{space}` is {mean:.2f} times as fast as {other} in the "
        f"geometric mean, {min(known):.2f} at least."
    )


def _beside(found: Mapping[str, Any], library: str, space: str) -> float | None:
    theirs, ours = found.get(f"{library}_secs"), _median(found, space, "careful_secs")
    return theirs / ours if theirs and ours else None


def _gain(found: Mapping[str, Any], base: str, space: str) -> float | None:
    first, second = (_median(found, name, "careful_secs") for name in (base, space))
    return first / second if first and second else None


def _table(results: Sequence[Mapping[str, Any]], spaces: Sequence[str]) -> str:
    head = [
        "workload",
        "trials",
        "seeds",
        "space",
        "best, µs (least–most)",
        "GFLOP/s",
        "% of peak",
        "% of copy",
    ]
    rows = []
    for found in results:
        base = _median(found, spaces[0], "careful_secs")
        for space in dict.fromkeys(run["space"] for run in found["runs"]):
            mine = [run for run in found["runs"] if run["space"] == space]
            rows.append(
                [found["workload"], str(found["trials"]), str(len(mine)), space, *_cells(found, mine, base)]
            )
    return "\n".join(
        report.markdown_table([*head, "× base", *_OTHERS, "search, s", "wall, s", "not ok"], rows)
    )


def _cells(found: Mapping[str, Any], mine: Sequence[Run], base: float | None) -> list[str]:
    secs = [run["careful_secs"] for run in mine]
    median = statistics.median(secs)
    gflops = found["flops"] / median / 1e9
    peak, copy = found["peak_gflops"], found.get("copy_gb_per_sec")
    others = [found.get(f"{name}_secs") for name in vendors.LIBRARIES]
    failed = sum(count for run in mine for outcome, count in run["outcomes"].items() if outcome != "ok")
    return [
        f"{micros(median)} ({micros(min(secs))}–{micros(max(secs))})",
        number(gflops, 0),
        number(100 * gflops / peak if peak else None, 0),
        number(100 * found["bytes"] / median / copy / 1e9 if copy else None, 0),
        number(base / median if base else None, 2),
        *(number(secs / median if secs else None, 2) for secs in others),
        number(statistics.median(run["search_secs"] for run in mine)),
        number(statistics.median(run["wall_secs"] for run in mine)),
        str(failed),
    ]


def _median(found: Mapping[str, Any], space: str, field: str) -> float | None:
    values = [float(run[field]) for run in found["runs"] if run["space"] == space]
    return statistics.median(values) if values else None
