"""`python -m bench stock`: the service against stock `ms.tune_tir`, on the suite, interleaved over seeds.

Each run of ours starts a service of its own. Stock's runs come from this machine's cache where it has them.
Pairs are kept beside the table and stay in it until the same seed is run again.
"""

import argparse
import json
import sys
from collections.abc import Mapping
from typing import Any

from bench import evaluate, machine, one_run, pairs, plot, report, report_versus, stock, suite
from bench.comparison import Comparison, Judged, Pair, careful_curve
from bench.curves import Run, thinned
from bench.machine import Machine
from bench.processes import BenchError
from bench.stock import Conditions
from bench.suite import Workload
from tuner.target import detect_local_target

DEFAULT_WORKLOADS = ("GMM-512", "SFM", "C2D-a")
#: Trials of a run where none are asked for: those of the table that is kept.
_TRIALS, _LONGER = 64, {"GMM-512": 256}
#: Points of one run that are timed carefully for the curve.
_CURVE_POINTS = 10
_BUSY_LOAD = 0.5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--workloads", default=",".join(DEFAULT_WORKLOADS), help="names, or `suite`, `extension`, `all`"
    )
    parser.add_argument("--trials", type=int, help="of each run; 64, of GMM-512 256, by default")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--batch", type=int, default=64, help="stock's num_trials_per_iter")
    parser.add_argument("--rerun", action="store_true", help="run stock again where it is cached")
    parser.add_argument("--options", type=json.loads, default={}, help="of our jobs, as JSON")
    parser.add_argument("--dry", action="store_true", help="leave docs/ as it is")
    parser.add_argument(
        "--only-table", action="store_true", help="write docs/ from what is kept, run nothing"
    )


def main(arguments: argparse.Namespace) -> int:
    if arguments.only_table:
        publish()
        return 0
    if machine.load_average() > _BUSY_LOAD:
        print(f"warning: load average {machine.load_average():.1f}: others are at work", file=sys.stderr)
    here = machine.this_machine()
    target = detect_local_target()
    failed: list[str] = []
    for name in _names(arguments.workloads):
        workload = suite.workload(name)
        trials = arguments.trials or _LONGER.get(name, _TRIALS)
        conditions = Conditions(target=target, trials=trials, batch=arguments.batch)
        for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
            try:
                _compare(here, workload, conditions, seed, arguments)
            except BenchError as error:
                print(f"{name}, seed {seed}: {error}", file=sys.stderr)
                failed.append(f"{name} {seed}")
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def publish() -> None:
    """Tables of all pairs that are kept, a target's after another's; pictures of the first target's."""
    every = pairs.comparisons(suite.names())
    if not every:
        return
    report.PICTURES.mkdir(parents=True, exist_ok=True)
    first = next(iter(every.values()))
    for compared in first:
        (report.PICTURES / f"{compared.workload}.svg").write_text(plot.best_so_far(compared))
    sections = [f"### On `{target}`\n\n{report_versus.tables(each)}" for target, each in every.items()]
    report.write_section("stock", "\n\n".join([*sections, report_versus.pictures(first)]))


def _names(asked: str) -> tuple[str, ...]:
    groups = {"suite": tuple(suite.DEVELOPMENT), "extension": tuple(suite.EXTENSION), "all": suite.names()}
    names = groups.get(asked) or tuple(asked.split(","))
    unknown = sorted(set(names) - set(suite.names()))
    if unknown:
        raise SystemExit(f"no workload {', '.join(unknown)}; known are {', '.join(suite.names())}")
    return names


def _compare(
    here: Machine, workload: Workload, conditions: Conditions, seed: int, arguments: argparse.Namespace
) -> None:
    """Run, judge, keep and print one pair. Raises BenchError."""
    kept = None if arguments.rerun else stock.cached(here, workload.name, conditions, seed)
    runs = {} if kept is None else {"stock": kept}
    for side in ("ours", "stock") if seed % 2 == 0 else ("stock", "ours"):
        if side == "ours":
            runs[side] = _ours(workload, conditions, seed, arguments.options)
        elif kept is None:
            runs[side] = stock.run(here, workload, conditions, seed)
        _tell(runs[side], cached=side == "stock" and kept is not None)
    pair = _judge(here, workload, conditions, runs, arguments.options, stock_cached=kept is not None)
    print(
        f"## {workload.name}, seed {seed}\n\n{report_versus.tables([Comparison(pairs=(pair,))])}\n",
        flush=True,
    )
    if not arguments.dry:
        pairs.keep(pair)
        publish()


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
    here: Machine,
    workload: Workload,
    conditions: Conditions,
    runs: Mapping[str, Run],
    options: dict[str, Any],
    *,
    stock_cached: bool,
) -> Pair:
    """Finals by the careful evaluator, in the same processes; then the curves' points, less carefully."""
    target = conditions.target
    finals = {side: run.final for side, run in runs.items()}
    careful = evaluate.timed(workload.module, finals, target, evaluate.FINAL)
    kept = {side: thinned(run.points, at_most=_CURVE_POINTS) for side, run in runs.items()}
    points: dict[str, Any] = {"untuned": None}
    for side, some in kept.items():
        points |= {f"{side} {number}": point.trace for number, point in enumerate(some)}
    curve = evaluate.timed(workload.module, points, target, evaluate.CURVE)

    def judged(side: str) -> Judged:
        final = careful[side]
        secs = [curve[f"{side} {number}"].secs for number in range(len(kept[side]))]
        return Judged(
            run=runs[side],
            curve=careful_curve(runs[side], secs, kept[side], final_secs=final.secs),
            final_secs=final.secs,
            flushed_secs=final.flushed_secs,
            difference=final.difference,
        )

    return Pair(
        workload=workload.name,
        seed=runs["ours"].seed,
        trials=conditions.trials,
        flops=workload.flops,
        options=options,
        target=dict(target),
        machine=str(here),
        commit=machine.commit(),
        stock_cached=stock_cached,
        untuned_secs=curve["untuned"].secs,
        stock=judged("stock"),
        ours=judged("ours"),
    )


def _tell(run: Run, *, cached: bool) -> None:
    source = "from the cache" if cached else f"{run.cpu_secs:.1f} s of CPU"
    line = f"{run.workload} {run.side:>5} seed {run.seed}: {run.wall_secs:6.1f} s, {run.trials_done} trials"
    print(f"{line}, {source}", file=sys.stderr, flush=True)
