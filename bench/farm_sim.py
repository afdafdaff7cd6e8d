"""How many devices one control plane feeds: real PostgreSQL, Valkey, API, tuner and Celery workers.

Only the devices are simulated (bench/sim_devices.py): each trial takes a time that a real worker recorded,
and no processor. For each number of devices it says how many trials were done a second, how busy the devices
were, and how many processor seconds of which process a trial cost.
"""

import argparse
import contextlib
import itertools
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil
import psycopg

from bench.farm import running_farm, searched
from bench.machine import this_machine
from bench.plain_farm import PlainFarm, plain_farm
from bench.processor import Processor, processor_secs
from bench.report import RESULTS, markdown_table, write_json, write_section
from tests.system.modules import module_json

_TIMES = Path(__file__).parent / "recorded_trial_secs.json"
#: Devices of one process: one pool thread and one heartbeat each.
_PER_PROCESS = 32
#: Live searches: as many as there are jobs, so that none is closed for another.
_CHILDREN = 4
_JSON = "farm-sim.json"
_MODULES = ("mm", "mm_relu", "bmm_relu", "linear0")
#: Stages of a trial in which nobody works on it.
_NO_WORK = frozenset({"wait"})
_STAGES = ("api", "tuner", "search", "postgres", "valkey", "devices")


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One number of devices."""

    devices: int
    strategy: str
    batch_size: int
    secs: float
    trials: int
    #: Seconds that devices were at work, of those that there were.
    utilisation: float
    #: Milliseconds of processor time for each trial, by stage; `devices` is the simulation's own.
    cpu_ms: dict[str, float]
    #: Processors in use, of those that the machine has.
    cores_used: float
    #: How many rounds back the newest was that a trial's own had learnt from, on average.
    lag: float

    @property
    def per_sec(self) -> float:
        return self.trials / self.secs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--devices", type=int, nargs="+", default=[1, 4, 16, 64, 256])
    parser.add_argument("--secs", type=float, default=20.0, help="measured, after it has settled")
    parser.add_argument("--settle-secs", type=float, default=12.0)
    parser.add_argument(
        "--strategies", nargs="+", choices=("evolutionary", "random"), default=["random", "evolutionary"]
    )
    parser.add_argument("--batch-size", type=int, default=0, help="0: twice the devices, 32 to 128")
    parser.add_argument("--record", action="store_true", help="record a real worker's times instead, and end")
    parser.add_argument("--keep", action="store_true", help="keep points of other numbers or strategies")
    parser.add_argument("--docs", action="store_true", help="write the table into docs/benchmarks.md")


def main(arguments: argparse.Namespace) -> int:
    if arguments.record:
        _record()
        return 0
    points = _kept() if arguments.keep else {}
    for strategy, devices in itertools.product(arguments.strategies, arguments.devices):
        points[strategy, devices] = _measure(devices, strategy, arguments)
        # Each as soon as it is known: the large ones take long.
        _report([points[key] for key in sorted(points)], docs=arguments.docs)
    return 0


def _kept() -> dict[tuple[str, int], Point]:
    path = RESULTS / _JSON
    found = json.loads(path.read_text())["points"] if path.exists() else []
    return {(point["strategy"], point["devices"]): Point(**point) for point in found}


def _record() -> None:
    """What trials of a real job took on this machine's device, waiting aside."""
    body = {
        "name": "recorded",
        "module": json.loads(module_json("bmm_relu")),
        "target": "local",
        "max_trials": 96,
    }
    with running_farm() as farm:
        job = farm.tune(body)
        trials = searched(farm.trials(job["id"]))
    secs = [
        sum(value for stage, value in trial["stage_secs"].items() if stage not in _NO_WORK)
        for trial in trials
        if trial["stage_secs"]
    ]
    recorded = {"machine": str(this_machine()), "workload": "bmm_relu", "trial_secs": sorted(secs)}
    _TIMES.write_text(json.dumps(recorded, indent=1) + "\n")
    print(f"{len(secs)} trials, mean {statistics.mean(secs):.3f} s, median {statistics.median(secs):.3f} s")


def _measure(devices: int, strategy: str, arguments: argparse.Namespace) -> Point:
    batch_size = arguments.batch_size or max(32, min(128, 2 * devices))
    with (
        plain_farm(roles=("api", "tuner"), max_children=str(_CHILDREN)) as farm,
        _devices(farm, devices) as hosts,
    ):
        for number, module in enumerate(_MODULES):
            options = {"batch_size": batch_size, "isolation_key": f"sim-{number}"}
            farm.submit(module, max_trials=100_000, strategy=strategy, options=options)
        time.sleep(arguments.settle_secs)
        before, began = _processors(farm, hosts), time.monotonic()
        first_at = farm.database_now()
        time.sleep(arguments.secs)
        after, secs = _processors(farm, hosts), time.monotonic() - began
        trials, busy_secs, lag = _done(farm, first_at)
    spent = {stage: after[stage] - before[stage] for stage in _STAGES}
    return Point(
        devices=devices,
        strategy=strategy,
        batch_size=batch_size,
        secs=secs,
        trials=trials,
        utilisation=busy_secs / (devices * secs),
        cpu_ms={stage: 1e3 * spent[stage] / max(1, trials) for stage in _STAGES},
        cores_used=sum(spent.values()) / secs,
        lag=lag,
    )


@contextmanager
def _devices(farm: PlainFarm, count: int) -> Iterator[list[psutil.Process]]:
    """Processes that host so many simulated devices, all of which have joined."""
    with contextlib.ExitStack() as stack:
        hosts = []
        for first in range(0, count, _PER_PROCESS):
            size = min(_PER_PROCESS, count - first)
            command = [sys.executable, "-m", "bench.sim_devices", str(first), str(size), str(_TIMES)]
            process = subprocess.Popen(command, env=farm.env, stdout=subprocess.PIPE, text=True)
            stack.callback(process.wait, 20)
            stack.callback(process.terminate)
            hosts.append(process)
        for process in hosts:
            assert process.stdout is not None
            if process.stdout.readline().strip() != "ready":
                raise RuntimeError("the simulated devices did not join")
        yield [psutil.Process(process.pid) for process in hosts]


def _processors(farm: PlainFarm, hosts: Sequence[psutil.Process]) -> Processor:
    return {
        "api": processor_secs(farm.roles.tree("api")),
        "tuner": processor_secs(farm.roles.tree("tuner")[:1]),
        "search": processor_secs(farm.roles.tree("tuner")[1:]),
        "postgres": processor_secs(_tree(farm.postgres.pid)),
        "valkey": processor_secs(_tree(farm.valkey.pid)),
        "devices": processor_secs(hosts),
    }


def _tree(pid: int) -> list[psutil.Process]:
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def _done(farm: PlainFarm, since: Any) -> tuple[int, float, float]:
    """Trials done since then, the seconds that their devices spent on them, and their rounds' mean lag."""
    question = (
        "SELECT count(*), coalesce(sum((stage_secs->>'measure')::float), 0),"
        " coalesce(avg(round - learnt_round), 0) FROM trials WHERE done_at > %s"
    )
    with psycopg.connect(farm.dsn) as connection:
        row = connection.execute(question, [since]).fetchone()
    assert row is not None
    return int(row[0]), float(row[1]), float(row[2])


def _report(points: Sequence[Point], *, docs: bool) -> None:
    machine = this_machine()
    path = RESULTS / _JSON
    write_json(_JSON, {"machine": asdict(machine), "points": [asdict(point) for point in points]})
    head = ["devices", "strategy", "batch", "trials/s", "utilisation", "lag", "cores used"]
    rows = [
        [
            str(point.devices),
            point.strategy,
            str(point.batch_size),
            f"{point.per_sec:.1f}",
            f"{point.utilisation:.0%}",
            f"{point.lag:.1f}",
            f"{point.cores_used:.2f}",
            *(f"{point.cpu_ms[stage]:.1f}" for stage in _STAGES),
        ]
        for point in points
    ]
    table = "\n".join([
        f"{machine}. CPU in milliseconds for each trial; `devices` is what the simulation itself costs.",
        "",
        *markdown_table([*head, *(f"{stage}, ms" for stage in _STAGES)], rows),
    ])  # fmt: skip
    print(f"{table}\nwritten to {path}", flush=True)
    if docs:
        write_section("farm-sim", table)
