"""`python -m bench space`: stock's design space against ours at equal trials, workload by workload.

One embedded service, one job at a time, spaces interleaved over the seeds, each with its own isolation key.
The fastest trial of each is timed again by the careful evaluator, in the same fresh processes: they load TVM
and none of our rules, and replay the traces. Rows are kept beside the table and stay in it until the same
seed is run again; `taskset -c 0 python -m bench space …` tunes and times for one core.
"""

import argparse
import json
import math
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from bench import evaluate, machine, report, report_space, space_rows, suite, unseen, vendors
from bench.farm import Farm, running_farm
from bench.processes import BenchError
from bench.space_rows import Row, Rows, SpaceRun
from bench.suite import Workload

#: A process alone may lie on slow pages, or meet a slow moment of a shared machine.
_CARE = evaluate.Care(repeats=6, repeat_ms=20.0, processes=3)
_SPACES = ("stock", "tilefarm")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--workloads", default="C2D-a", help="names, or `suite`, `extension`, `unseen`, `all`"
    )
    parser.add_argument("--space", default=",".join(_SPACES), help="names of spaces; the first is the base")
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--dry", action="store_true", help="leave docs/ as it is")
    parser.add_argument(
        "--only-table", action="store_true", help="write docs/ from what is kept, run nothing"
    )


def main(arguments: argparse.Namespace) -> int:
    spaces = tuple(arguments.space.split(","))
    if arguments.only_table:
        _publish()
        return 0
    failed: list[str] = []
    with running_farm() as farm:
        for name in _names(arguments.workloads):
            for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
                try:
                    row = _row(farm, _workload(name), spaces, seed=seed, trials=arguments.trials)
                except BenchError as error:
                    print(f"{name}, seed {seed}: {error}", file=sys.stderr)
                    failed.append(f"{name} {seed}")
                    continue
                print(report_space.table([Rows(rows=(row,))], spaces), flush=True)
                if not arguments.dry:
                    space_rows.keep(row)
                    _publish()
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _publish() -> None:
    report.write_section("space", report_space.summary(space_rows.kept(_names("all")), _SPACES))


def _names(asked: str) -> tuple[str, ...]:
    groups = {
        "suite": tuple(suite.DEVELOPMENT),
        "extension": tuple(suite.EXTENSION),
        "unseen": tuple(unseen.UNSEEN),
        "all": (*suite.DEVELOPMENT, *suite.EXTENSION, *unseen.UNSEEN),
    }
    return groups.get(asked) or tuple(asked.split(","))


def _workload(name: str) -> Workload:
    return unseen.unseen(name) if name in unseen.UNSEEN else suite.workload(name)


def _row(farm: Farm, workload: Workload, spaces: Sequence[str], *, seed: int, trials: int) -> Row:
    """Raises BenchError where a best trial does not build or run."""
    found = {
        space: _run(farm, workload, space=space, seed=seed, trials=trials)
        for space in (spaces if seed % 2 == 0 else spaces[::-1])
    }
    before = _of_libraries(workload, farm.target)
    traces = {space: run["trace"] for space, run in found.items()}
    times = evaluate.timed(workload.module, traces, farm.target, _CARE)
    after = _of_libraries(workload, farm.target)
    first = times[spaces[0]]
    return Row(
        workload=workload.name,
        trials=trials,
        seed=seed,
        flops=workload.flops,
        bytes=sum(4 * math.prod(shape) for shape in vendors.shapes(workload.module)),
        target=dict(farm.target),
        machine=str(machine.this_machine()),
        commit=machine.commit(),
        runs={
            space: SpaceRun(
                wall_secs=found[space]["wall_secs"],
                search_secs=found[space]["search_secs"],
                outcomes=found[space]["outcomes"],
                careful_secs=times[space].secs,
                difference=times[space].difference,
            )
            for space in spaces
        },
        libraries={name: _middle(before[name], after[name]) for name in vendors.LIBRARIES},
        peak_gflops=first.peak_gflops,
        copy_gb_per_sec=first.copy_gb_per_sec,
    )


def _of_libraries(workload: Workload, target: Mapping[str, Any]) -> dict[str, float | None]:
    return {name: vendors.secs(name, workload.name, workload.module, target) for name in vendors.LIBRARIES}


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
        "wall_secs": wall_secs,
        "search_secs": float(job["stage_secs"].get("search", 0.0)),
        "outcomes": job["outcomes"],
        "trace": farm.own_best_trace(job["id"]),
    }
