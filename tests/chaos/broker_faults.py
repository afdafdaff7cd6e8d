"""The broker loses everything, restarts, doubles and reorders, and cannot be reached."""

import signal
import time

from tests.chaos.farm import Farm, Setup
from tests.chaos.fault import Fault, Injected, Mark

_SILENT_SECS = 8.0
_BROKEN_SECS = 5.0


def _flushall(farm: Farm, job_id: str) -> Injected:
    broker = farm.valkey.client()
    times = 6
    mark = Mark(farm, job_id)
    for _ in range(times):
        broker.flushall()
        time.sleep(0.5)
    mark.restart_clock()
    broker.close()
    return Injected(times=times, recovery_secs=[mark.recovered()])


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


BROKER_FAULTS = (
    Fault(name="FLUSHALL", inject=_flushall, trials=96),
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
)
