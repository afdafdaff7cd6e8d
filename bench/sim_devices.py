"""Simulated devices: real Celery workers and heartbeats; a trial takes a drawn time and no processor.

`python -m bench.sim_devices FIRST COUNT TIMES.json` hosts `COUNT` devices in one process, one pool thread
each. TILEFARM_URL, TILEFARM_TOKEN and TILEFARM_BROKER_URL are a worker's. Nothing is built or measured: times
are drawn from those that a real worker recorded.
"""

import json
import queue
import random
import sys
import threading
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog
from celery import Celery
from celery.exceptions import SecurityWarning

from db.states import Outcome, Purpose
from workers.app import make_app, publish_result
from workers.consumer import SteadyConsumer
from workers.heartbeat import Heartbeat
from workers.holding import Attempt, Holding
from workers.membership import Membership
from workers.messages import MeasureChunk, TrialOrder, TrialOutcome, TrialStarted
from workers.queues import MEASURE_STEP
from workers.selftester import DeviceReport
from workers.settings import WorkerSettings

TARGET = {"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2, "mtriple": "x86_64-pc-linux-gnu"}
TVM_VERSION = "0.27.0.post1"
_DEVICE_CLASS = "simulated 2c"
#: What kernels are said to take, seconds: the untuned one, and the tuned ones about.
_UNTUNED_SECS, _TUNED_SECS = 1e-2, 1e-3


@dataclass(slots=True, kw_only=True)
class SimulatedDevice:
    """One worker of the fleet, as the farm sees it."""

    app: Celery
    membership: Membership
    #: Seconds from a trial's start to its outcome, as recorded.
    trial_secs: list[float]
    draw: random.Random
    holding: Holding = field(default_factory=Holding)

    def run(self, chunk: MeasureChunk) -> None:
        attempts = [Attempt(order.trial_id, order.attempt) for order in chunk.trials]
        self.holding.take(attempts)
        for order, attempt in zip(chunk.trials, attempts, strict=True):
            if not self.holding.dropped(attempt):
                self._measure(order)
            self.holding.release([attempt])

    def _measure(self, order: TrialOrder) -> None:
        worker_id = self.membership.worker_id
        started = TrialStarted(trial_id=order.trial_id, attempt=order.attempt, worker_id=worker_id)
        publish_result(self.app, started)
        secs = self.draw.choice(self.trial_secs)
        time.sleep(secs)
        tuned = order.purpose != Purpose.BASELINE
        latency_secs = _TUNED_SECS * self.draw.lognormvariate(0.5, 0.5) if tuned else _UNTUNED_SECS
        publish_result(
            self.app,
            TrialOutcome(
                trial_id=order.trial_id,
                attempt=order.attempt,
                worker_id=worker_id,
                outcome=Outcome.OK,
                run_secs=(latency_secs,) * 3,
                incumbent_run_secs=(_TUNED_SECS,) * 3 if order.incumbent_trace is not None else None,
                stage_secs={"measure": secs},
                device_class=_DEVICE_CLASS,
                tvm_version=TVM_VERSION,
            ),
        )


def main(first: int, count: int, times: Path) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    settings = WorkerSettings()
    assert settings.broker_url is not None
    app = make_app(settings.broker_url)
    # As many connections as devices, as if each were a process of its own.
    app.conf.broker_pool_limit = count
    trial_secs = json.loads(times.read_text())["trial_secs"]
    free: queue.SimpleQueue[SimulatedDevice] = queue.SimpleQueue()
    queues: tuple[str, ...] = ()
    for number in range(first, first + count):
        membership = _member(settings, number)
        joined = membership.join(stopped=threading.Event())
        assert joined is not None
        queues = joined.queues
        device = SimulatedDevice(
            app=app, membership=membership, trial_secs=trial_secs, draw=random.Random(number)
        )
        _heartbeat(device, joined.heartbeat_secs).start()
        free.put(device)

    def step(obj: dict[str, Any]) -> None:
        device = free.get()
        try:
            device.run(MeasureChunk.from_json(obj))
        finally:
            free.put(device)

    app.task(name=MEASURE_STEP, ignore_result=True)(step)
    print("ready", flush=True)
    _celery_worker(app, first, count, queues).start()


def _member(settings: WorkerSettings, number: int) -> Membership:
    announcement = {
        "name": f"simulated-{number}",
        "host": f"host-{number}",
        "device": "simulated",
        "device_class": _DEVICE_CLASS,
        "target": TARGET,
        "profiles": ["local"],
        "role": "both",
        "cores": 2,
        "memory_bytes": 1 << 34,
        "tvm_version": TVM_VERSION,
        "facts": {},
    }
    token = settings.token.get_secret_value()
    return Membership(url=str(settings.url), token=token, announcement=announcement)


def _heartbeat(device: SimulatedDevice, every_secs: float) -> Heartbeat:
    return Heartbeat(
        membership=device.membership,
        holding=device.holding,
        stage_secs=dict,
        device_report=lambda: DeviceReport(facts={}),
        set_draining=lambda _draining: None,
        every_secs=every_secs,
    )


def _celery_worker(app: Celery, first: int, count: int, queues: tuple[str, ...]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SecurityWarning)
        return app.Worker(
            hostname=f"simulated-{first}@tilefarm",
            pool="threads",
            concurrency=count,
            consumer_cls=SteadyConsumer,
            queues=",".join(queues),
            loglevel="WARNING",
            quiet=True,
            without_gossip=True,
            without_mingle=True,
            without_heartbeat=True,
        )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
