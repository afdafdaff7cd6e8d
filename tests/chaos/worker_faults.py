"""Workers are killed, stopped, lied to by their clock, and left without disk."""

import contextlib
import fcntl
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import redis

from tests.chaos.disk import full
from tests.chaos.farm import Farm, Setup
from tests.chaos.fault import Fault, Injected, Mark

_POLL_SECS = 0.002
_WAIT_SECS = 30.0
#: A worker is dead to the farm after ten silent seconds.
_STOPPED_SECS = 14.0
#: Long enough for five heartbeats that nobody answers.
_SILENT_SECS = 40.0
_FULL_SECS = 8.0
#: So many are under way that there may be four more messages, though the tuner has taken a few results.
_UNDER_WAY, _RESULTS, _RESULTS_SECS = 6, 4, 2.0
_CLOCK_OFF = ("+10m", "-10m")


def _until(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _WAIT_SECS
    while not reached():
        if time.monotonic() > deadline:
            raise AssertionError("the moment for the fault did not come")
        time.sleep(_POLL_SECS)


def _timing(farm: Farm) -> bool:
    """A candidate runs on the device: its lock is held."""
    lock_fd = os.open(farm.lock, os.O_RDONLY)
    try:
        fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(lock_fd)


def _building(farm: Farm) -> bool:
    """Children live, and none of them is timed."""
    worker, *below = farm.roles.tree("worker")
    return len(below) > len(worker.children()) and not _timing(farm)


def _kill_when(moment: Callable[[Farm], bool], farm: Farm, job_id: str) -> Injected:
    secs = []
    for _ in range(2):
        _until(lambda: moment(farm))
        mark = Mark(farm, job_id)
        farm.restart("worker")
        secs.append(mark.recovered())
    return Injected(times=2, recovery_secs=secs)


def _after_the_result(farm: Farm, job_id: str) -> Injected:
    """The tuner is stopped, so that the result lies in the broker, taken by nobody, when its worker dies."""
    secs = []
    broker = farm.valkey.client()
    for _ in range(2):
        _until(lambda: _results_wait(farm, job_id, broker))
        mark = Mark(farm, job_id)
        farm.restart("worker")
        farm.roles.signal("tuner", signal.SIGCONT)
        secs.append(mark.recovered())
    broker.close()
    return Injected(times=2, recovery_secs=secs)


def _results_wait(farm: Farm, job_id: str, broker: redis.Redis) -> bool:
    """The tuner is stopped, and messages lie there; else it goes on, for the worker may have had no more."""
    if farm.audit.by_state(job_id).get("dispatched", 0) < _UNDER_WAY:
        return False
    farm.roles.signal("tuner", signal.SIGSTOP)
    deadline = time.monotonic() + _RESULTS_SECS
    while time.monotonic() < deadline:
        if broker.llen("tilefarm.results") >= _RESULTS:
            return True
        time.sleep(_POLL_SECS)
    farm.roles.signal("tuner", signal.SIGCONT)
    return False


def _stopped(farm: Farm, job_id: str) -> Injected:
    """Another worker measures what the stopped one held; what that one says later is too late."""
    # A stopped child may hold the device's lock: the other worker has a device of its own.
    other = {"WORKER_NAME": "second", "WORK_DIR": farm.home / "work-2", "LOCK_DIR": farm.home / "locks-2"}
    farm.start("worker-second", **{f"TILEFARM_{name}": str(value) for name, value in other.items()})
    _until(lambda: _timing(farm))
    mark = Mark(farm, job_id)
    tree = farm.roles.tree("worker")
    # Children end by themselves meanwhile.
    for process in tree:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.suspend()
    time.sleep(_STOPPED_SECS)
    for process in reversed(tree):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.resume()
    secs = mark.recovered()
    farm.service.wait_job(job_id, timeout_secs=200)
    farm.roles.end("worker-second")
    return Injected(
        times=1, recovery_secs=[secs], note=f"stopped for {_STOPPED_SECS:.0f} s, counted from the stop"
    )


def _cut_off_from_the_api(farm: Farm, job_id: str) -> Injected:
    """It is dead to the farm, ends what it holds, and takes nothing until it is answered again."""
    secs = []
    before = farm.count_events("worker", "silence_changed")
    for forgets in (False, True):
        mark = Mark(farm, job_id)
        if forgets:
            farm.api_proxy.forget()
        else:
            farm.api_proxy.cut(silently=True)
            time.sleep(_SILENT_SECS)
            farm.api_proxy.mend()
            mark.restart_clock()
        secs.append(mark.recovered())
    assert farm.count_events("worker", "silence_changed") > before, "the worker did not notice"
    note = f"packets swallowed for {_SILENT_SECS:.0f} s; then open connections silent for ever"
    return Injected(times=2, recovery_secs=secs, note=note)


def _work_disk_full(farm: Farm, job_id: str) -> Injected:
    """What a candidate cannot help is no outcome of its own: it is measured again."""
    mark = Mark(farm, job_id)
    with full(farm.small_disk):
        time.sleep(_FULL_SECS)
    mark.restart_clock()
    secs = mark.recovered()
    farm.service.wait_job(job_id, timeout_secs=200)
    blamed = farm.audit.ask(
        """SELECT outcome, error, count(*) FROM trials
           WHERE job_id = %s AND outcome NOT IN ('ok', 'cut_off') AND error ILIKE '%%space left%%'
           GROUP BY outcome, error""",
        [job_id],
    )
    assert not blamed, f"candidates are blamed for a full disk: {blamed}"
    said = sum(farm.roles.log("worker").read_text().count(word) for word in ("disk_full", "space left"))
    note = f"full for {_FULL_SECS:.0f} s; the worker's log says so {said} times"
    return Injected(times=1, recovery_secs=[secs], note=note)


def _clock_off(farm: Farm, job_id: str) -> Injected:
    secs = []
    library = str(_faketime())
    for offset in _CLOCK_OFF:
        mark = Mark(farm, job_id)
        farm.roles.kill("worker")
        farm.start(
            "worker", LD_PRELOAD=library, FAKETIME=offset, DONT_FAKE_MONOTONIC="1", FAKETIME_NO_CACHE="1"
        )
        secs.append(mark.recovered())
    return Injected(times=len(_CLOCK_OFF), recovery_secs=secs, note="ten minutes fast, then ten minutes slow")


def _faketime() -> Path | None:
    found = list(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    return found[0] if found else None


def _no_faketime() -> str | None:
    return None if _faketime() else "libfaketime is not installed (Debian: apt-get install faketime)"


def cannot_mount() -> str | None:
    able = os.geteuid() == 0 and shutil.which("mount") is not None
    return None if able else "mounting a small file system needs root"


WORKER_FAULTS = (
    Fault(
        name="worker SIGKILL mid-build",
        inject=lambda farm, job_id: _kill_when(_building, farm, job_id),
    ),
    Fault(
        name="worker SIGKILL mid-run",
        inject=lambda farm, job_id: _kill_when(_timing, farm, job_id),
    ),
    Fault(
        name="worker SIGKILL after the result was sent, before it was acknowledged",
        inject=_after_the_result,
    ),
    Fault(
        name="worker SIGSTOP past its lease, then SIGCONT",
        inject=_stopped,
        trials=96,
    ),
    Fault(
        name="clock ten minutes off on the worker",
        inject=_clock_off,
        unable=_no_faketime,
        trials=96,
    ),
    Fault(
        name="API cut off from the worker only",
        inject=_cut_off_from_the_api,
        setup=Setup(api_proxied=frozenset({"worker"})),
        trials=160,
    ),
    Fault(
        name="the worker's disk is full",
        inject=_work_disk_full,
        setup=Setup(small_disk="worker"),
        unable=cannot_mount,
        trials=96,
    ),
)
