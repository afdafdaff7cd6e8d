"""The broker loses everything, restarts, doubles and reorders, and cannot be reached."""

import contextlib
import signal
import time

import redis

from tests.chaos.farm import Farm, Setup
from tests.chaos.fault import Fault, Injected, Mark
from workers.queues import RESULTS

_SILENT_SECS = 8.0
_BROKEN_SECS = 5.0
_WAIT_SECS = 60.0
#: A role that is stopped for so long is dead to nobody yet.
_STOPPED_SECS = 2.0
_RESULTS = 4
_POLL_SECS = 0.002


def _flushall(farm: Farm, job_id: str) -> Injected:
    """Chunks and results are taken within milliseconds: who takes them is stopped, so that some lie there."""
    secs, chunks, results = [], 0, 0
    with contextlib.closing(farm.valkey.client()) as broker:
        for _ in range(2):
            lost, took = _flush_what_lies_there(farm, job_id, broker, "worker", "tilefarm.both.*", least=1)
            chunks += lost
            secs.append(took)
            lost, took = _flush_what_lies_there(farm, job_id, broker, "tuner", RESULTS, least=_RESULTS)
            results += lost
            secs.append(took)
    note = f"{chunks} chunks and {results} results lay in it and were lost"
    return Injected(times=len(secs), recovery_secs=secs, note=note)


def _flush_what_lies_there(
    farm: Farm, job_id: str, broker: redis.Redis, taker: str, pattern: str, *, least: int
) -> tuple[int, float]:
    """How many messages went, and seconds until all that was under way had its result."""
    deadline = time.monotonic() + _WAIT_SECS
    while time.monotonic() < deadline:
        # A worker that ends a chunk holds the next one already, and one more is sent; results follow.
        _wait_for_event(farm, "worker", "chunk_done")
        farm.roles.signal(taker, signal.SIGSTOP)
        try:
            queue = _queue_of(broker, pattern, least)
            if queue is not None:
                mark = Mark(farm, job_id)
                with broker.pipeline(transaction=True) as both:
                    both.llen(queue)
                    both.flushall()
                    lost, _ = both.execute()
        finally:
            farm.roles.signal(taker, signal.SIGCONT)
        if queue is not None:
            return lost, mark.recovered()
    raise AssertionError(f"{least} messages never lay in {pattern}: nothing was lost")


def _wait_for_event(farm: Farm, role: str, event: str) -> None:
    """Until the role's log has it once more."""
    deadline = time.monotonic() + _WAIT_SECS
    seen = farm.count_events(role, event)
    while farm.count_events(role, event) == seen:
        if time.monotonic() > deadline:
            raise AssertionError(f"the {role} never said {event}")
        time.sleep(_POLL_SECS)


def _queue_of(broker: redis.Redis, pattern: str, least: int) -> bytes | None:
    """The queue by its pattern, as soon as so many messages lie in it."""
    deadline = time.monotonic() + _STOPPED_SECS
    while time.monotonic() < deadline:
        for queue in broker.keys(pattern):
            if broker.llen(queue) >= least:
                return queue
        time.sleep(_POLL_SECS)
    return None


def _restarts(farm: Farm, job_id: str) -> Injected:
    mark = Mark(farm, job_id)
    for _ in range(3):
        farm.valkey.end(signal.SIGKILL)
        farm.valkey.start()
        time.sleep(0.9)
    mark.restart_clock()
    return Injected(times=3, recovery_secs=[mark.recovered()])


def _tripled(farm: Farm, job_id: str) -> Injected:
    farm.service.wait_job(job_id, timeout_secs=200)
    return Injected(times=farm.proxy.messages, note="every message of the job")


def _cut_off(farm: Farm, job_id: str) -> Injected:
    secs = []
    for silently, cut_secs in ((True, _SILENT_SECS), (False, _BROKEN_SECS)):
        mark = Mark(farm, job_id)
        farm.proxy.cut(silently=silently)
        time.sleep(cut_secs)
        farm.proxy.mend()
        mark.restart_clock()
        secs.append(mark.recovered())
    return Injected(
        times=2,
        recovery_secs=secs,
        note=f"packets swallowed for {_SILENT_SECS:.0f} s, connections refused for {_BROKEN_SECS:.0f} s",
    )


def _forgotten(farm: Farm, job_id: str) -> Injected:
    """Nothing tells either end: what is under way in the connections is lost, and nobody is refused."""
    mark = Mark(farm, job_id)
    connections = farm.proxy.forget()
    before = farm.count_events("worker", "worker_restarts")
    recovery_secs = mark.recovered()
    restarts = farm.count_events("worker", "worker_restarts") - before
    note = f"{connections} left open, silent for ever; the worker started itself again {restarts} times"
    return Injected(times=1, recovery_secs=[recovery_secs], note=note)


BROKER_FAULTS = (
    Fault(name="FLUSHALL", inject=_flushall, trials=320),
    Fault(name="broker restarted three times in three seconds", inject=_restarts, trials=96),
    Fault(
        name="every message tripled and reordered",
        inject=_tripled,
        setup=Setup(proxied=frozenset({"worker", "tuner"}), tripled=True),
        after=0,
    ),
    Fault(
        name="broker cut off from workers only",
        inject=_cut_off,
        setup=Setup(proxied=frozenset({"worker"})),
        trials=96,
    ),
    Fault(
        name="broker's connections forgotten by the network",
        inject=_forgotten,
        setup=Setup(proxied=frozenset({"worker", "tuner"})),
        trials=160,
    ),
)
