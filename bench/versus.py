"""`python -m bench stock`: the service against stock `ms.tune_tir`, on the suite, interleaved over seeds.

Each run of ours starts a service of its own. Stock's runs come from the cache where it has them, and a part
of them is run again. Results of earlier calls on this machine stay in the table until they are replaced.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from bench import evaluate, machine, one_run, plot, report, report_versus, stock, suite
from bench.comparison import Comparison, Judged, careful_curve
from bench.curves import Point, Run, thinned
from bench.machine import Machine
from bench.processes import BenchError
from bench.stock import Check, Conditions
from bench.suite import Workload
from tuner.target import detect_local_target

DEFAULT_WORKLOADS = ("GMM-512", "SFM", "C2D-a")
#: Points of one run that are timed carefully for the curve.
_CURVE_POINTS = 10
_BUSY_LOAD = 0.5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--workloads", default=",".join(DEFAULT_WORKLOADS), help="names, or `suite`, `extension`, `all`"
    )
    parser.add_argument("--trials", type=int, default=128)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--batch", type=int, default=64, help="stock's num_trials_per_iter")
    parser.add_argument("--rerun", action="store_true", help="run stock again where it is cached")
    parser.add_argument("--no-check", action="store_true", help="trust the cache")
    parser.add_argument("--options", type=json.loads, default={}, help="of our jobs, as JSON")
    parser.add_argument("--dry", action="store_true", help="leave docs/ as it is")
    parser.add_argument(
        "--only-table", action="store_true", help="write docs/ from what is kept, run nothing"
    )


def main(arguments: argparse.Namespace) -> int:
    here = machine.this_machine()
    if arguments.only_table:
        publish(here)
        return 0
    if machine.load_average() > _BUSY_LOAD:
        print(f"warning: load average {machine.load_average():.1f}: others are at work", file=sys.stderr)
    conditions = Conditions(target=detect_local_target(), trials=arguments.trials, batch=arguments.batch)
    checks: list[Check] = []
    failed: list[str] = []
    for name in _names(arguments.workloads):
        try:
            check = _compare(here, suite.workload(name), conditions, arguments)
        except BenchError as error:
            print(f"{name}: {error}", file=sys.stderr)
            failed.append(name)
            continue
        checks += [check] if check is not None else []
        if not arguments.dry:
            publish(here, checks)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def publish(here: Machine, checks: Sequence[Check] = ()) -> None:
    """Table and pictures of all that was compared on this machine, in the suite's order."""
    directory = report.RESULTS / "versus" / here.key
    found = [directory / f"{name}.json" for name in suite.names()]
    comparisons = [Comparison.from_json(json.loads(path.read_text())) for path in found if path.exists()]
    if not comparisons:
        return
    report.PICTURES.mkdir(parents=True, exist_ok=True)
    for compared in comparisons:
        (report.PICTURES / f"{compared.workload}.svg").write_text(plot.best_so_far(compared))
    report.write_section("stock", report_versus.tables(comparisons, checks))


def _names(asked: str) -> tuple[str, ...]:
    groups = {"suite": tuple(suite.DEVELOPMENT), "extension": tuple(suite.EXTENSION), "all": suite.names()}
    names = groups.get(asked) or tuple(asked.split(","))
    unknown = sorted(set(names) - set(suite.names()))
    if unknown:
        raise SystemExit(f"no workload {', '.join(unknown)}; known are {', '.join(suite.names())}")
    return names


def _compare(
    here: Machine, workload: Workload, conditions: Conditions, arguments: argparse.Namespace
) -> Check | None:
    """Run, judge, keep and print one workload. Raises BenchError."""
    runs, check = _runs(here, workload, conditions, arguments)
    compared = _judge(here, workload, conditions, runs, arguments.options)
    report.write_json(f"versus/{here.key}/{workload.name}.json", compared.as_json())
    text = report_versus.tables([compared], [] if check is None else [check])
    print(f"## {workload.name}\n\n{text}\n", flush=True)
    return check


def _runs(
    here: Machine, workload: Workload, conditions: Conditions, arguments: argparse.Namespace
) -> tuple[list[Run], Check | None]:
    """Both sides, seed by seed, each going first in turn."""
    runs: list[Run] = []
    from_cache: list[Run] = []
    for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
        for side in ("ours", "stock") if seed % 2 == 0 else ("stock", "ours"):
            kept = None
            if side == "stock" and not arguments.rerun:
                kept = stock.cached(here, workload.name, conditions, seed)
            if kept is not None:
                from_cache.append(kept)
                runs.append(kept)
            elif side == "stock":
                runs.append(stock.run(here, workload, conditions, seed))
            else:
                runs.append(_ours(workload, conditions, seed, arguments.options))
            _tell(runs[-1], cached=kept is not None)
    check = None
    if from_cache and not arguments.no_check:
        check = stock.check(workload, conditions, from_cache[0])
    return runs, check


def _ours(workload: Workload, conditions: Conditions, seed: int, options: dict[str, Any]) -> Run:
    return one_run.run(
        {
            "side": "ours",
            "workload": workload.name,
            "module": workload.module,
            "target": dict(conditions.target),
            "trials": conditions.trials,
            "seed": seed,
            "options": options,
        }
    )


def _judge(
    here: Machine, workload: Workload, conditions: Conditions, runs: Sequence[Run], options: dict[str, Any]
) -> Comparison:
    """Finals by the careful evaluator, all in the same processes; then the curves' points, less carefully."""
    finals = {f"{run.side}-{run.seed}": run.final for run in runs}
    target = conditions.target
    careful = evaluate.timed(workload.module, finals, target, evaluate.FINAL)
    kept: dict[str, list[Point]] = {
        f"{run.side}-{run.seed}": thinned(run.points, at_most=_CURVE_POINTS) for run in runs
    }
    points = {
        f"{name} {number}": point.trace for name, some in kept.items() for number, point in enumerate(some)
    }
    curve = evaluate.timed(workload.module, points, target, evaluate.CURVE)
    untuned = evaluate.timed(workload.module, {"untuned": None}, target, evaluate.CURVE)
    judged = []
    for run in runs:
        name = f"{run.side}-{run.seed}"
        final = careful[name]
        secs = [curve[f"{name} {number}"].secs for number in range(len(kept[name]))]
        judged.append(
            Judged(
                run=run,
                curve=careful_curve(run, secs, kept[name], final_secs=final.secs),
                final_secs=final.secs,
                flushed_secs=final.flushed_secs,
                difference=final.difference,
            )
        )
    return Comparison(
        workload=workload.name,
        flops=workload.flops,
        trials=conditions.trials,
        options=options,
        target=dict(target),
        machine=str(here),
        commit=machine.commit(),
        untuned_secs=untuned["untuned"].secs,
        runs=tuple(judged),
    )


def _tell(run: Run, *, cached: bool) -> None:
    source = "from the cache" if cached else f"{run.cpu_secs:.1f} s of CPU"
    line = f"{run.workload} {run.side:>5} seed {run.seed}: {run.wall_secs:6.1f} s, {run.trials_done} trials"
    print(f"{line}, {source}", file=sys.stderr, flush=True)
