"""The tuner service's process: wires the loop, its threads and its children, and ends them cleanly.

It may be killed at any point: what it knew stands in rows, its leases expire, its children die with it.
"""

import os
import secrets
import signal
import socket
import threading
from collections.abc import Collection

import structlog
from sqlalchemy import Engine
from sqlalchemy.exc import OperationalError

from db.migrate import is_behind
from db.session import connect
from sandbox.child import Child
from sandbox.errors import SandboxError
from sandbox.fork_server import ForkServer
from sandbox.limits import Limits
from services.signing import Signer
from services.tuning import signatures
from services.tuning.broker import ResultsConsumer, make_tuner_app, send_chunk
from services.tuning.errors import BrokerError
from services.tuning.leases import Leases
from services.tuning.loop import Tuner
from services.tuning.metrics import TunerMetrics
from services.tuning.pulse import Pulse
from services.tuning.revisions import Revisions
from services.tuning.search_host import SearchHost
from services.tuning.settings import TunerSettings
from workers.probes import Probes

_log = structlog.get_logger(__name__)

_SEARCH_CHILD = "tuner.search_child:run"
_PRELOAD = ("tuner.preload", "tuner.search_child")


def run(settings: TunerSettings) -> None:
    """Run until SIGTERM or SIGINT."""
    stopping = threading.Event()
    pulse = Pulse(tick_secs=settings.tick_secs)

    def stop(_signum: int, _frame: object) -> None:
        stopping.set()
        pulse.hurry()

    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, stop)
    serve(settings, stopping=stopping, pulse=pulse)


def serve(settings: TunerSettings, *, stopping: threading.Event, pulse: Pulse) -> None:
    """The service without its signals: runs until `stopping`; the pulse cuts a pause short."""
    owner = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"[:120]
    engine = connect(
        settings.database_url,
        # One for each thread that may ask: the loop, the results, and each search's.
        pool_size=2 + settings.max_children,
        timeout_secs=settings.database_timeout_secs,
        ending=stopping,
    )
    app = make_tuner_app(
        settings.broker_url,
        timeout_secs=settings.broker_timeout_secs,
        redeliver_secs=settings.results_redeliver_secs,
    )
    revisions = Revisions(secs=settings.revision_secs)

    def changed(job_ids: Collection[str], ended: int) -> None:
        revisions.changed(job_ids)
        pulse.ended(ended)

    leases = Leases(engine=engine, owner=owner, settings=settings)
    metrics = TunerMetrics(leases=lambda: leases, stuck_secs=settings.stuck_secs)
    consumer = ResultsConsumer(app=app, engine=engine, on_change=changed, spent=metrics.spent)
    with _probes(metrics, consumer, settings), ForkServer(_PRELOAD) as server:
        _await_schema(engine, settings, metrics, stopping=stopping)
        tuner = Tuner(
            engine=engine,
            leases=leases,
            host=SearchHost(
                engine=engine,
                spawn=lambda: _spawn(server, settings),
                settings=settings,
                on_answer=pulse.wake,
            ),
            send=lambda chunk, key, role: send_chunk(app, chunk, target_key=key, role=role),
            revisions=revisions,
            settings=settings,
            pulse=pulse,
            signer=_signer(engine, settings, stopping=stopping),
        )
        consumer.start()
        _log.info("tuner_started", owner=owner)
        try:
            _loop(tuner, settings, metrics, stopping=stopping, pulse=pulse, consumer=consumer)
        finally:
            consumer.stop()
            _close(tuner)
            consumer.join(timeout=10.0)
    engine.dispose()
    _log.info("tuner_ended", owner=owner)


def _await_schema(
    engine: Engine, settings: TunerSettings, metrics: TunerMetrics, *, stopping: threading.Event
) -> None:
    """Until somebody has upgraded the database; one that is away is waited for, too."""
    while not stopping.is_set():
        try:
            if not is_behind(engine):
                return
            metrics.waits_for("the database lacks this version's schema")
            _log.warning("schema_behind", command="tilefarm-server db upgrade")
        except OperationalError as error:
            metrics.database_away()
            _log.warning("database_away", reason=str(error.orig), retry_secs=settings.outage_secs)
        stopping.wait(settings.outage_secs)


def _signer(engine: Engine, settings: TunerSettings, *, stopping: threading.Event) -> Signer | None:
    """The key of the settings; a database that is away is waited for."""
    pem = None if settings.signing_key is None else settings.signing_key.get_secret_value()
    while True:
        try:
            return signatures.open_key(engine, pem)
        except OperationalError as error:
            _log.warning("database_away", reason=str(error.orig), retry_secs=settings.outage_secs)
            if stopping.wait(settings.outage_secs):
                return None


def _probes(metrics: TunerMetrics, consumer: ResultsConsumer, settings: TunerSettings) -> Probes:
    def healthy() -> str | None:
        ended = consumer.ident is not None and not consumer.is_alive()
        return "nothing takes results any more" if ended else metrics.healthy()

    return Probes(
        host=settings.metrics_host,
        port=settings.tuner_metrics_port,
        registry=metrics.registry,
        healthy=healthy,
        ready=lambda: (
            healthy() or metrics.ready() or ("the broker does not answer" if consumer.broker_away else None)
        ),
    )


def _loop(
    tuner: Tuner,
    settings: TunerSettings,
    metrics: TunerMetrics,
    *,
    stopping: threading.Event,
    pulse: Pulse,
    consumer: threading.Thread,
) -> None:
    """Raises BrokerError where the thread that takes results has ended: the process is started anew."""
    outage_secs = settings.outage_secs
    started = False
    while not stopping.is_set():
        if not consumer.is_alive():
            raise BrokerError("nothing takes results any more")
        try:
            if not started:
                tuner.start()
                started = True
            with metrics.tick():
                acted = tuner.tick(metrics.spent)
        except OperationalError as error:
            metrics.database_away()
            _log.warning("database_away", reason=str(error.orig), retry_secs=outage_secs)
            stopping.wait(outage_secs)
            outage_secs = min(2 * outage_secs, settings.outage_max_secs)
            continue
        outage_secs = settings.outage_secs
        pulse.rest(acted=acted)


def _close(tuner: Tuner) -> None:
    try:
        tuner.close()
    except (OperationalError, SandboxError) as error:
        # The leases expire by themselves.
        _log.warning("end_unclean", reason=str(error))


def _spawn(server: ForkServer, settings: TunerSettings) -> Child:
    limits = Limits(
        address_space_bytes=settings.child_address_space_bytes,
        cpu_secs=None,
        large_stack=True,
        idle_priority=True,
    )
    return server.spawn(_SEARCH_CHILD, limits=limits)
