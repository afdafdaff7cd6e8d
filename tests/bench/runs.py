"""Runs, rows and comparisons with round figures."""

import dataclasses
from typing import Any

from bench.comparison import Judged, Pair, careful_curve
from bench.curves import Point, Run
from bench.space_rows import Row, SpaceRun

POINTS = (
    Point(trials=4, secs=10.0, latency_secs=4e-3, trace="a"),
    Point(trials=16, secs=20.0, latency_secs=2e-3, trace="b"),
    Point(trials=60, secs=40.0, latency_secs=1e-3, trace="c"),
)


def a_run(side: str, *, seed: int = 0, wall_secs: float = 100.0, cpu_secs: float = 150.0) -> Run:
    return Run(
        side=side,
        workload="GMM-512",
        seed=seed,
        trials=64,
        trials_done=64,
        wall_secs=wall_secs,
        cpu_secs=cpu_secs,
        first_secs=9.0,
        points=POINTS,
        final=[["trace"], []],
        outcomes={"ok": 64},
        stage_secs={"build": 3.0},
    )


def judged(run: Run, *, final_secs: float, careful: tuple[float, ...] = (4e-3, 2e-3, 1e-3)) -> Judged:
    return Judged(
        run=run,
        curve=careful_curve(run, careful, run.points, final_secs=final_secs),
        final_secs=final_secs,
        flushed_secs=2 * final_secs,
        difference=1e-6,
    )


def a_pair(stock: Judged, ours: Judged, *, machine: str = "a CPU, 2 cores", trials: int = 64) -> Pair:
    return Pair(
        workload="GMM-512",
        seed=ours.run.seed,
        trials=trials,
        flops=2.0e9,
        options={},
        target={"kind": "llvm", "mcpu": "x86-64-v4", "num-cores": 2},
        machine=machine,
        commit="abc",
        stock_cached=False,
        untuned_secs=0.1,
        stock=stock,
        ours=ours,
    )


def space_run(careful_secs: float) -> SpaceRun:
    return SpaceRun(
        wall_secs=20.0,
        search_secs=4.0,
        outcomes={"ok": 60, "cut_off": 4},
        careful_secs=careful_secs,
        difference=1e-6,
    )


def space_row(workload: str = "C1D", *, stock: float = 2e-3, tilefarm: float = 1e-3, **changes: Any) -> Row:
    row = Row(
        workload=workload,
        trials=64,
        seed=0,
        flops=1e8,
        bytes=1_000_000,
        target={"kind": "llvm", "mcpu": "znver4", "num-cores": 2},
        machine="a CPU, 2 cores",
        commit="abc",
        runs={"stock": space_run(stock), "tilefarm": space_run(tilefarm)},
        libraries={"numpy": None, "torch": 3e-3},
        peak_gflops=200.0,
        copy_gb_per_sec=10.0,
    )
    return dataclasses.replace(row, **changes)
