"""A worker's life: find the device, join the fleet, measure until told to end, leave.

The worker process loads no TVM: it drives sandboxed children. Celery runs in this process's main thread,
chunks on one pool thread, the heartbeat on another.
"""

import json
import os
import sys
import threading
import warnings
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import structlog
from celery import Celery, signals
from celery.apps import worker as celery_worker
from celery.exceptions import SecurityWarning
from kombu import Queue
from kombu.exceptions import OperationalError

from db.states import WorkerRole
from sandbox.fork_server import ForkServer
from workers import metrics
from workers.app import make_app, own_queue, publish_result
from workers.artifact_client import ArtifactClient
from workers.canary import Canary
from workers.children_dir import children_dir
from workers.children_server import children_server
from workers.consumer import SteadyConsumer
from workers.consuming import Consuming
from workers.device import DetectedTarget, Device, detect_target, find_device, host_name
from workers.errors import DeviceError, JoinRefused, ThreadDied, WorkerDeaf
from workers.gpu import GpuSensors
from workers.heartbeat import Heartbeat
from workers.holding import Attempt, Holding
from workers.membership import Joined, Membership
from workers.messages import MeasureChunk, Result, TrialUnbuilt
from workers.probes import Probes
from workers.queues import canary_queue, step_of
from workers.restarting import Restarting
from workers.selftest import REFERENCE_KERNEL, DeviceTester
from workers.selftest_shipping import KernelFetcher, KernelShipper
from workers.selftester import SelfTester
from workers.sensors import Sensors, sensing
from workers.settings import WorkerSettings
from workers.steps import register_steps
from workers.trial_log import TrialLog
from workers.turn import Turn
from workers.work import Bench, Work, make_work

_log = structlog.get_logger(__name__)


def run(settings: WorkerSettings) -> None:
    """Serve until SIGTERM or SIGINT. Raises DeviceError or JoinRefused where there is nothing to serve.

    A worker that has become deaf, or has lost a thread, ends all that it does, and starts again as the same
    process.
    """
    try:
        _run(settings)
    except (WorkerDeaf, ThreadDied):
        restart()


def restart() -> None:
    """The same program from its start, under the same process id: whoever supervises it sees no death."""
    _log.warning("worker_restarts", pid=os.getpid())
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - our own command line


def _run(settings: WorkerSettings) -> None:
    builds = settings.worker_role is WorkerRole.BUILD
    if builds and settings.worker_device == "cuda" and settings.worker_target is None:
        raise DeviceError("a worker that builds for GPUs is told for which: TILEFARM_WORKER_TARGET")
    device = find_device(
        # What only builds needs no GPU, whatever it builds for.
        "cpu" if builds else settings.worker_device,
        num_cores=settings.worker_cores,
        lock_dir=settings.lock_dir,
        gpu=settings.worker_gpu,
    )
    with (
        children_dir(settings.work_dir) as directory,
        children_server(directory, device=device, target=settings.worker_target) as server,
    ):
        detected = detect_target(
            server,
            num_cores=len(device.cpus),
            target=settings.worker_target,
            times=not builds,
            device=device,
        )
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
    holding, turn, trial_log = Holding(), Turn(), TrialLog()
    client = ArtifactClient(
        url=str(settings.url),
        token=settings.token.get_secret_value(),
        max_bytes=settings.max_artifact_bytes,
    )
    bench = Bench(
        settings=settings,
        server=server,
        device=device,
        detected=detected,
        holding=holding,
        client=client,
        worker_id=lambda: membership.worker_id,
        publish=lambda obj: _publish(
            app, obj, trial_log, timeout_secs=settings.publish_timeout_secs, holding=holding
        ),
    )
    work = make_work(bench)
    canary_name = canary_queue(membership.name)
    worker = _celery_worker(
        app, name=f"{host_name()}-{device.name}", queues=joined.queues, own=own_queue(canary_name)
    )
    consuming = Consuming(worker, joined.queues)
    builds_only = settings.worker_role is WorkerRole.BUILD
    fetcher = KernelFetcher(client=client, worker_id=lambda: membership.worker_id)
    shipper = KernelShipper(
        server=server,
        client=client,
        target=detected.target,
        linker=bench.linker or "ld",
    )
    can_build = detected.own_target is not None
    selftester = SelfTester(
        tester=DeviceTester(
            server=server,
            device=device,
            target=detected.target,
            turn=turn,
            shipped=None if can_build else fetcher.get,
        ),
        turn=turn,
        history=settings.work_dir / "selftest" / f"{device.name}.jsonl",
        device_class=device.device_class,
        kernel=f"{REFERENCE_KERNEL} tvm {detected.tvm_version}{'' if can_build else ' shipped'}",
        every_secs=0.0 if builds_only else settings.worker_selftest_secs,
        drift_limit=settings.worker_drift_limit,
        set_quarantined=consuming.set_quarantined,
    )

    def take(chunk: MeasureChunk) -> None:
        if selftester.quarantined or consuming.silent:
            raise DeviceError("it is in quarantine, or the farm takes this worker for dead")
        with turn.chunk(), trial_log.chunk(chunk):
            work.run(chunk)

    restarting = Restarting(last_resort=lambda: _restart_at_once(server, holding))
    canary = Canary(
        app=app,
        queue=canary_name,
        every_secs=settings.worker_canary_secs,
        idle_secs=lambda: turn.idle_secs,
        on_deaf=lambda: restarting.end_worker(WorkerDeaf("it hears nothing through its broker any more")),
    )
    register_steps(app, step=step_of(settings.worker_role), work=take, hear=canary.hear)
    heartbeat = Heartbeat(
        membership=membership,
        holding=holding,
        stage_secs=work.stage_secs,
        device_report=sensing(
            shipper.report if builds_only else selftester.report,
            Sensors(cpus=device.cpus) if device.gpu is None else GpuSensors(uuid=device.gpu.uuid),
        ),
        set_draining=consuming.set_draining,
        set_silent=consuming.set_silent,
        every_secs=joined.heartbeat_secs,
    )

    def stop(**_signal: Any) -> None:
        # What is held is given up at once: the reconciler rings for it again.
        holding.drop_all()
        fetcher.stopped.set()
        turn.end_tests()
        restarting.insist(lambda: _end_at_once(server, membership))

    signals.worker_shutting_down.connect(stop)
    try:
        with restarting.watching_threads(), _probes(settings, work, holding, consuming, canary):
            heartbeat.start()
            selftester.start()
            if builds_only:
                shipper.start()
            canary.start()
            worker.start()
    finally:
        canary.stop()
        holding.drop_all()
        fetcher.stopped.set()
        for part in (selftester, shipper, heartbeat):
            part.stop()
        client.close()
        signals.worker_shutting_down.disconnect(stop)
        _give_back(app, holding.let_go, membership.worker_id)
    restarting.raise_fault()


def _probes(
    settings: WorkerSettings, work: Work, holding: Holding, consuming: Consuming, canary: Canary
) -> Probes:
    told = metrics.WorkerMetrics(
        stage_secs=work.stage_secs, held=holding.held, quarantined=lambda: consuming.quarantined
    )
    return Probes(
        host=settings.metrics_host,
        port=settings.worker_metrics_port,
        registry=metrics.registry(told),
        healthy=lambda: None,
        ready=lambda: consuming.fault or ("the broker does not answer" if canary.broker_away else None),
    )


def _publish(app: Celery, obj: Result, trial_log: TrialLog, *, timeout_secs: float, holding: Holding) -> None:
    try:
        publish_result(app, obj, timeout_secs=timeout_secs, given_up=lambda: holding.stopped)
    except OperationalError as error:
        _log.error("result_lost", trial_id=obj.trial_id, attempt=obj.attempt, reason=str(error))
    else:
        trial_log.told(obj)


def _give_back(app: Celery, attempts: Sequence[Attempt], worker_id: str) -> None:
    """What this worker has not done is no loss of a worker; where the broker is away, it is taken for one."""
    for attempt in attempts:
        told = TrialUnbuilt(**attempt._asdict(), worker_id=worker_id, reason="the worker ends")
        try:
            publish_result(app, told, given_up=lambda: True)
        except OperationalError as error:
            _log.warning("not_given_back", attempts=attempts, reason=str(error))
            return


def _restart_at_once(server: ForkServer, holding: Holding) -> None:
    """Where the consumer hangs so that it does not even end. What is held is rung for again."""
    holding.drop_all()
    server.close()
    restart()


def _end_at_once(server: ForkServer, membership: Membership) -> None:
    """Where something hangs that a signal asked to end. What was held is rung for again."""
    _log.error("worker_hangs", pid=os.getpid())
    server.close()
    membership.leave()
    os._exit(1)


def _announcement(settings: WorkerSettings, device: Device, detected: DetectedTarget) -> dict[str, Any]:
    return {
        "name": settings.worker_name or f"{host_name()}/{device.name}{_suffix(settings.worker_role)}",
        "host": host_name(),
        "device": device.name,
        "device_class": device.device_class,
        "target": detected.target,
        "profiles": list(settings.profiles),
        "role": settings.worker_role,
        "cores": len(device.cpus),
        "memory_bytes": device.memory_bytes,
        "tvm_version": detected.tvm_version,
        "features": None if detected.features is None else list(detected.features),
        "machine": detected.machine,
        "facts": {**device.facts, "pid": os.getpid()},
    }


def _suffix(role: WorkerRole) -> str:
    """A builder shares its host with the worker of the device."""
    return "-build" if role is WorkerRole.BUILD else ""


def _celery_worker(app: Celery, *, name: str, queues: tuple[str, ...], own: Queue) -> Any:
    """One chunk at a time on one thread; no gossip, no events, no remote control."""
    app.amqp.queues.add(own)
    # The lines of both would be no JSON.
    signals.setup_logging.connect(_leave_logging)
    celery_worker.safe_say = _say
    with warnings.catch_warnings():
        # Celery warns of root because a message might bring code; ours are JSON, and code runs in children.
        warnings.simplefilter("ignore", SecurityWarning)
        return app.Worker(
            hostname=f"{name}@tilefarm",
            pool="threads",
            concurrency=1,
            consumer_cls=SteadyConsumer,
            queues=",".join((*queues, own.name)),
            loglevel="WARNING",
            quiet=True,
            without_gossip=True,
            without_mingle=True,
            without_heartbeat=True,
        )


def _leave_logging(**_signal: Any) -> None:
    """Celery sets up no logging of its own where somebody takes this signal."""


def _say(text: str, _stream: object = None) -> None:
    """What Celery says in a signal's handler, at which nothing may wait: no lock, no buffer."""
    now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    line = {"text": text, "event": "celery_said", "level": "info", "timestamp": now}
    os.write(1, (json.dumps(line) + "\n").encode())
