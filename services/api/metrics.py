"""Prometheus metrics: tilefarm_*, base units, no label per job or workload.

What is counted in rows is the farm's, the same from every replica: take `max`, not `sum`, over replicas.
It is read when asked, and remembered for a moment. What this process saw itself is in request_times.py.
"""

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import redis
import structlog
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from db.counts import FarmCounts, count_farm
from db.session import reading
from db.states import Outcome, TrialState, WorkerRole, WorkerState
from db.workers import Worker, list_workers
from services.api.request_times import RequestTimes
from services.api.settings import ApiSettings
from services.api.worker_views import Health, health
from workers.queues import RESULTS, work_queue

_log = structlog.get_logger(__name__)
_BROKER_TIMEOUT_SECS = 1.0
#: SQLSTATE of a statement that was ended.
_TOOK_TOO_LONG = "57014"
_HEALTHS: tuple[Health, ...] = ("alive", "stale", "dead")
_WHOLE = {WorkerRole.BOTH}
_HALVES = {WorkerRole.BUILD, WorkerRole.MEASURE}
#: What waits to be measured waits in the queues of two roles.
_QUEUES = {"measure": (WorkerRole.BOTH, WorkerRole.MEASURE), "build": (WorkerRole.BUILD,)}
_ACTIVE_STATES = (WorkerState.RUNNING, WorkerState.DRAINING, WorkerState.QUARANTINED)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Farm:
    counts: FarmCounts
    workers: list[Worker]


class FarmMetrics(Collector):
    """Counts of rows, and of messages that wait in the broker."""

    def __init__(self, engine: Engine, settings: ApiSettings) -> None:
        self._engine = engine
        self._settings = settings
        self._lock = threading.Lock()
        self._remembered: list[Metric] = []
        self._read_at = -float("inf")

    def collect(self) -> Iterable[Metric]:
        """One reads, the others take what it found; an outage is not remembered."""
        with self._lock:
            if time.monotonic() - self._read_at >= self._settings.metrics_rows_secs:
                self._remembered = list(self._read())
                self._read_at = time.monotonic()
            return self._remembered

    def _read(self) -> Iterable[Metric]:
        try:
            with reading(self._engine) as session:
                farm = _Farm(counts=count_farm(session), workers=list_workers(session))
        except SQLAlchemyError as error:
            # Counting took longer than a statement may: that is an answer, too.
            answered = getattr(getattr(error, "orig", None), "sqlstate", None) == _TOOK_TOO_LONG
            _log.warning("metrics_not_counted", reason=str(error)[:500])
            yield _up(answered=answered)
            return
        yield _up(answered=True)
        yield from _rows(farm.counts)
        yield from _fleet(farm, self._settings)
        if self._settings.broker_url is not None:
            queues = [(worker.target_key, WorkerRole.of(worker.role)) for worker in farm.workers]
            yield from _broker(self._settings.broker_url, set(queues))


def registry(engine: Engine, settings: ApiSettings, request_times: RequestTimes) -> CollectorRegistry:
    made = CollectorRegistry()
    made.register(FarmMetrics(engine, settings))
    made.register(request_times.histogram)
    return made


def _up(*, answered: bool) -> Metric:
    return GaugeMetricFamily("tilefarm_database_up", "1 where the database answers", value=int(answered))


def _rows(counts: FarmCounts) -> Iterable[Metric]:
    yield _gauge("tilefarm_jobs", "Jobs by state", "state", counts.jobs)
    waiting = {
        str(state): counts.open_trials.get(state, 0) for state in (TrialState.QUEUED, TrialState.DISPATCHED)
    }
    yield _gauge(
        "tilefarm_open_trials", "Trials of jobs not ended that wait for an Outcome", "state", waiting
    )
    trials = CounterMetricFamily("tilefarm_trials", "Trials that have an Outcome", labels=["outcome"])
    for outcome, count in {**_zeros(Outcome), **counts.outcomes}.items():
        trials.add_metric([outcome], count)
    yield trials
    yield _gauge("tilefarm_records", "Records by state", "state", counts.records)
    yield GaugeMetricFamily(
        "tilefarm_leases", "Leases of searches that have not expired", value=counts.leases
    )
    yield GaugeMetricFamily(
        "tilefarm_lease_owners", "Tuner replicas that hold a lease", value=counts.lease_owners
    )
    yield GaugeMetricFamily(
        "tilefarm_searches_waiting",
        "Searches that a running job needs and that no replica leases",
        value=counts.searches_waiting,
    )


def _fleet(farm: _Farm, settings: ApiSettings) -> Iterable[Metric]:
    healths = [health(worker, settings) for worker in farm.workers]
    alive = [worker for worker, found in zip(farm.workers, healths, strict=True) if found == "alive"]
    states = [worker.state for worker in alive]
    roles: dict[str, set[str]] = defaultdict(set)
    for worker in alive:
        roles[worker.target_key].add(worker.role)
    served = {target for target, found in roles.items() if found & _WHOLE or found >= _HALVES}
    yield _gauge(
        "tilefarm_workers", "Workers by health", "health", {name: healths.count(name) for name in _HEALTHS}
    )
    yield _gauge(
        "tilefarm_workers_alive",
        "Workers alive by state",
        "state",
        {**_zeros(_ACTIVE_STATES), **Counter(map(str, states))},
    )
    yield GaugeMetricFamily(
        "tilefarm_targets_unserved",
        "Targets of jobs not ended that no worker alive serves",
        value=len(farm.counts.wanted_targets - served),
    )


def _broker(url: str, queues: Collection[tuple[str, WorkerRole]]) -> Iterable[Metric]:
    """Messages by kind of queue: chunks that no worker took, results that no replica recorded."""
    up, waiting = 0, {}
    try:
        with redis.Redis.from_url(
            url.replace("redis+socket://", "unix://", 1),
            socket_timeout=_BROKER_TIMEOUT_SECS,
            socket_connect_timeout=_BROKER_TIMEOUT_SECS,
        ) as client:
            waiting["results"] = _length(client, RESULTS)
            for kind, roles in _QUEUES.items():
                named = [work_queue(key, role) for key, role in queues if role in roles]
                waiting[kind] = sum(_length(client, queue) for queue in named)
        up = 1
    except (redis.RedisError, ValueError):
        waiting = {}
    yield GaugeMetricFamily("tilefarm_broker_up", "1 where the broker answers", value=up)
    yield _gauge("tilefarm_broker_messages", "Messages that wait in the broker", "queue", waiting)


def _length(client: redis.Redis, queue: str) -> int:
    found = client.llen(queue)
    assert isinstance(found, int)
    return found


def _zeros(states: Iterable[str]) -> dict[str, int]:
    """What this release knows is told also where there is none; what a newer one knows, where there is."""
    return dict.fromkeys(map(str, states), 0)


def _gauge(name: str, text: str, label: str, values: Mapping[str, int]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=[label])
    for value, count in values.items():
        family.add_metric([value], count)
    return family
