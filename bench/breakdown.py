"""`python -m bench profile`: where the seconds of one run go, by trial, and how far it is from the floor.

The floor is what no tuner on this machine can save: LLVM's seconds a candidate, over the cores.
"""

import argparse
import dataclasses
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from bench import build_stages, report, suite, timeline
from bench.farm import Farm, epoch_secs, running_farm, searched
from bench.one_run import job_body
from db.states import Purpose

#: Traces whose build is taken apart.
_SAMPLE = 16
_LLVM = ("LLVM IR", "machine code")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workload", choices=suite.names(), default="GMM-512")
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--options", type=json.loads, default={}, help="of the job, as JSON")
    parser.add_argument("--write", action="store_true", help="write the table to docs/")


def main(arguments: argparse.Namespace) -> int:
    workload = suite.workload(arguments.workload)
    order = {
        "workload": workload.name,
        "module": workload.module,
        "trials": arguments.trials,
        "seed": arguments.seed,
        "options": arguments.options,
    }
    began = time.time()
    with running_farm() as farm:
        profile = _profile(farm, order, began)
        target = farm.target
    stages = build_stages.mean_secs(workload.module, profile.pop("sample"), target)
    results = {"workload": workload.name, "measured_on": report.measured_on(target), "target": target}
    results |= {"build_stages": stages, **profile}
    text = table(results)
    print(text)
    report.write_json(f"profile/{workload.name}.json", results)
    if arguments.write:
        report.write_section(f"profile {workload.name}", text)
    return 0


def table(results: Mapping[str, Any]) -> str:
    """Markdown."""
    trials, wall_secs = results["trials_done"], results["wall_secs"]
    per_trial = 1e3 / max(1, trials)
    words = (
        f"{results['workload']}, {trials} trials, {results['measured_on']}: "
        f"{wall_secs:.1f} s, {trials / wall_secs:.2f} trials/s; outcomes {_words(results['outcomes'])}."
    )
    lines = [words, ""]
    rows = [
        [name, f"{secs:.2f}", f"{secs * per_trial:.0f}", f"{secs / wall_secs:.0%}"]
        for name, secs in [*results["budget"].items(), ("wall-clock", wall_secs)]
    ]
    lines += [*report.markdown_table(["wall-clock", "s", "ms a trial", "share"], rows), ""]
    rows = [
        [purpose, str(row["count"]), *(f"{row['ms'].get(name, 0.0):.0f}" for name in results["stages"])]
        for purpose, row in results["by_purpose"].items()
    ]
    head = ["summed over processes, ms each", "trials", *results["stages"]]
    lines += [*report.markdown_table(head, rows), ""]
    pauses = results["gaps"]
    lines.append(
        f"Search: {results['search_secs']:.2f} s in {results['rounds']} rounds, "
        f"{results['search_secs'] * per_trial:.0f} ms a trial. "
        f"Pauses between results of half a second or more: {len(pauses)}, together {sum(pauses):.1f} s."
    )
    chunks = results["chunks"]
    words = (
        f"Worker: {chunks['count']} chunks of {chunks['trials'] / max(1, chunks['count']):.1f} trials in the "
        f"mean, {chunks['busy_secs']:.1f} s within chunks, {chunks['between_secs']:.1f} s between them "
        f"(at most {chunks['longest_between_secs']:.1f} s at once)."
    )
    lines += ["", words]
    return "\n".join([*lines, *_floor(results)])


def _floor(results: Mapping[str, Any]) -> list[str]:
    stages, cores = results["build_stages"], int(results["target"]["num-cores"])
    if not stages:
        return []
    llvm_secs = sum(stages[name] for name in _LLVM)
    floor_secs = llvm_secs * results["trials_done"] / cores
    builds = ", ".join(f"{name} {1e3 * secs:.0f}" for name, secs in stages.items())
    distance = results["wall_secs"] / floor_secs
    words = (
        f"One build on a quiet core, ms: {builds}. Floor: {1e3 * llvm_secs:.0f} ms of LLVM ÷ {cores} cores "
        f"× {results['trials_done']} trials = {floor_secs:.1f} s; the run took {distance:.1f} times as long."
    )
    return ["", words]


def _profile(farm: Farm, order: Mapping[str, Any], began: float) -> dict[str, Any]:
    ready = time.time()
    job = farm.tune(job_body(order))
    trials = farm.trials(job["id"])
    at = timeline.moments(
        trials,
        began=began,
        ready=ready,
        submitted=epoch_secs(job["created_at"]),
        ended=epoch_secs(job["finished_at"]),
    )
    search = searched(trials)
    spent = timeline.budget(trials, at, cores=int(farm.target["num-cores"]))
    step = max(1, len(search) // _SAMPLE)
    return {
        "trials_done": len(search),
        "rounds": len({trial["round"] for trial in search}),
        "wall_secs": spent.wall_secs,
        "budget": spent.parts,
        "outcomes": job["outcomes"],
        "stages": sorted({name for trial in trials for name in trial["stage_secs"] or {}}),
        "by_purpose": _by_purpose(trials),
        "search_secs": job["stage_secs"].get("search", 0.0),
        "gaps": timeline.gaps(trials),
        "chunks": dataclasses.asdict(timeline.chunks(farm.worker_log())),
        "sample": [farm.trial_trace(trial["id"]) for trial in search[::step]],
        "done_at_secs": [epoch_secs(trial["done_at"]) - began for trial in trials],
        "created_at_secs": [epoch_secs(trial["created_at"]) - began for trial in trials],
        "trials": trials,
    }


def _by_purpose(trials: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    rows = {}
    for purpose in (Purpose.BASELINE, Purpose.SEARCH, Purpose.CONFIRM):
        mine = [trial for trial in trials if trial["purpose"] == purpose and trial["stage_secs"]]
        names = {name for trial in mine for name in trial["stage_secs"]}
        means = {name: 1e3 * timeline.stage_sum(mine, [name]) / len(mine) for name in names}
        rows[str(purpose)] = {"count": len(mine), "ms": means}
    return rows


def _words(outcomes: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in outcomes.items())
