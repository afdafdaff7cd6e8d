"""A worker's life: find the device, join the fleet, measure until told to end, leave.

The worker process loads no TVM: it drives sandboxed children. Celery runs in this process's main thread,
chunks on one pool thread, the heartbeat on another.
"""

import os
import shutil
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import structlog
from celery import Celery, signals
from celery.exceptions import SecurityWarning
from kombu.exceptions import OperationalError

from sandbox.fork_server import ForkServer
from workers import metrics
from workers.app import make_app, publish_result
from workers.artifacts import ArtifactStore
from workers.consumer import SteadyConsumer
from workers.consuming import Consuming
from workers.device import DetectedTarget, Device, detect_target, find_device, host_name
from workers.errors import DeviceError, JoinRefused
from workers.heartbeat import Heartbeat
from workers.holding import Holding
from workers.measure import Measurer
from workers.membership import Joined, Membership
from workers.messages import MeasureChunk, TrialOutcome, TrialStarted
from workers.probes import Probes
from workers.reference import ReferenceCache
from workers.selftest import REFERENCE_KERNEL, DeviceTester
from workers.selftester import SelfTester
from workers.settings import WorkerSettings
from workers.steps import register_steps
from workers.turn import Turn

_log = structlog.get_logger(__name__)


def run(settings: WorkerSettings) -> None:
    """Serve until SIGTERM or SIGINT. Raises DeviceError or JoinRefused where there is nothing to serve."""
    device = find_device(settings.worker_device, num_cores=settings.worker_cores, lock_dir=settings.lock_dir)
    with (
        _children_dir(settings.work_dir) as children_dir,
        ForkServer(["workers.preload"], work_dir=children_dir) as server,
    ):
        detected = detect_target(server, num_cores=len(device.cpus))
        membership = Membership(
            url=str(settings.url),
            token=settings.token.get_secret_value(),
            announcement=_announcement(settings, device, detected),
        )
        try:
            joined = membership.join(stopped=threading.Event())
            assert joined is not None
            _serve(settings, server, device, detected, membership, joined)
        finally:
            membership.leave()


@contextmanager
def _children_dir(work_dir: Path) -> Iterator[Path]:
    """A directory of this process for its children's; what processes that were killed left behind goes."""
    parent = work_dir / "children"
    parent.mkdir(parents=True, exist_ok=True)
    for left in parent.iterdir():
        if not Path("/proc", left.name).exists():
            shutil.rmtree(left, ignore_errors=True)
    own = parent / str(os.getpid())
    own.mkdir(exist_ok=True)
    try:
        yield own
    finally:
        shutil.rmtree(own, ignore_errors=True)


def _serve(
    settings: WorkerSettings,
    server: ForkServer,
    device: Device,
    detected: DetectedTarget,
    membership: Membership,
    joined: Joined,
) -> None:
    broker_url = settings.broker_url or joined.broker_url
    if broker_url is None:
        raise JoinRefused("neither TILEFARM_BROKER_URL nor the API names a broker")
    app = make_app(broker_url)
    holding, turn = Holding(), Turn()
    measurer = _measurer(settings, server, device, detected, membership, holding, app)
    worker = _celery_worker(app, name=f"{host_name()}-{device.name}", queues=joined.queues)
    consuming = Consuming(worker, joined.queues)
    selftester = SelfTester(
        tester=DeviceTester(server=server, device=device, target=detected.target, turn=turn),
        turn=turn,
        history=settings.work_dir / "selftest" / f"{device.name}.jsonl",
        device_class=device.device_class,
        kernel=f"{REFERENCE_KERNEL} tvm {detected.tvm_version}",
        every_secs=settings.worker_selftest_secs,
        drift_limit=settings.worker_drift_limit,
        set_quarantined=consuming.set_quarantined,
    )

    def measure(chunk: MeasureChunk) -> None:
        if selftester.quarantined:
            raise DeviceError("the device is in quarantine")
        with turn.chunk():
            measurer.run(chunk)

    register_steps(app, measure=measure)
    heartbeat = Heartbeat(
        membership=membership,
        holding=holding,
        stage_secs=measurer.stage_secs,
        device_report=selftester.report,
        set_draining=consuming.set_draining,
        every_secs=joined.heartbeat_secs,
    )

    probes = Probes(
        host=settings.metrics_host,
        port=settings.worker_metrics_port,
        registry=metrics.registry(
            metrics.WorkerMetrics(
                stage_secs=measurer.stage_secs,
                held=holding.held,
                quarantined=lambda: selftester.quarantined,
            )
        ),
        healthy=lambda: None,
        ready=lambda: "the device is in quarantine" if selftester.quarantined else None,
    )

    def stop(**_signal: Any) -> None:
        # What is held is given up at once: the reconciler rings for it again.
        holding.drop_all()
        turn.end_test()

    signals.worker_shutting_down.connect(stop)
    heartbeat.start()
    selftester.start()
    try:
        with probes:
            worker.start()
    finally:
        holding.drop_all()
        selftester.stop()
        heartbeat.stop()
        signals.worker_shutting_down.disconnect(stop)


def _measurer(
    settings: WorkerSettings,
    server: ForkServer,
    device: Device,
    detected: DetectedTarget,
    membership: Membership,
    holding: Holding,
    app: Celery,
) -> Measurer:
    linker = shutil.which("ld") if settings.worker_linker == "auto" else None

    def publish(obj: TrialStarted | TrialOutcome) -> None:
        try:
            publish_result(app, obj, timeout_secs=settings.publish_timeout_secs)
        except OperationalError as error:
            _log.error("result_lost", trial_id=obj.trial_id, attempt=obj.attempt, reason=str(error))

    return Measurer(
        server=server,
        device=device,
        references=ReferenceCache(
            server=server,
            directory=Path(settings.work_dir) / "references",
            linker=linker,
            timeout_secs=settings.reference_timeout_secs,
            max_bytes=settings.reference_cache_bytes,
        ),
        artifacts=ArtifactStore(
            directory=settings.work_dir / "artifacts", max_count=settings.worker_max_artifacts
        ),
        holding=holding,
        linker=linker,
        tvm_version=detected.tvm_version,
        worker_id=lambda: membership.worker_id,
        publish=publish,
        max_waiting=settings.worker_max_waiting,
    )


def _announcement(settings: WorkerSettings, device: Device, detected: DetectedTarget) -> dict[str, Any]:
    return {
        "name": settings.worker_name or f"{host_name()}/{device.name}",
        "host": host_name(),
        "device": device.name,
        "device_class": device.device_class,
        "target": detected.target,
        "profiles": list(settings.profiles),
        "role": "both",
        "cores": len(device.cpus),
        "memory_bytes": device.memory_bytes,
        "tvm_version": detected.tvm_version,
        "facts": {**device.facts, "pid": os.getpid()},
    }


def _celery_worker(app: Celery, *, name: str, queues: tuple[str, ...]) -> Any:
    """One chunk at a time on one thread; no gossip, no events, no remote control."""
    with warnings.catch_warnings():
        # Celery warns of root because a message might bring code; ours are JSON, and code runs in children.
        warnings.simplefilter("ignore", SecurityWarning)
        return app.Worker(
            hostname=f"{name}@tilefarm",
            pool="threads",
            concurrency=1,
            consumer_cls=SteadyConsumer,
            queues=",".join(queues),
            loglevel="WARNING",
            quiet=True,
            without_gossip=True,
            without_mingle=True,
            without_heartbeat=True,
        )
