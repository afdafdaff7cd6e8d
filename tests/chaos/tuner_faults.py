"""Tuners are killed, stopped past their lease, and share searches; a search kills its children; jobs race."""

import contextlib
import json
import os
import signal
import threading
import time
import uuid
from typing import Any

import httpx

from db.states import JobState
from tests.chaos.farm import Farm, Setup
from tests.chaos.fault import Fault, Injected, Mark
from tests.system.modules import body

_WAIT_SECS = 60.0
#: A lease lasts eight seconds.
_STOPPED_SECS = 12.0
#: Jobs that are cancelled, each so much later than the one before: the first while it confirms its best, the
#: last when it has ended.
_RACES = 8
_RACE_STEP_SECS = 0.4
_UNACKED = "tilefarm.results.unacked"


def _within_a_batch(farm: Farm, job_id: str) -> Injected:
    """Killed with results in hand that it has not acknowledged."""
    secs = []
    broker = farm.valkey.client()
    for _ in range(2):
        _stop_with_results_in_hand(farm, broker)
        mark = Mark(farm, job_id)
        farm.restart("tuner")
        secs.append(mark.recovered())
    broker.close()
    return Injected(times=2, recovery_secs=secs, note="the results are delivered again after 30 s")


def _stop_with_results_in_hand(farm: Farm, broker: Any) -> None:
    deadline = time.monotonic() + _WAIT_SECS
    while time.monotonic() < deadline:
        if broker.hlen(_UNACKED):
            farm.roles.signal("tuner", signal.SIGSTOP)
            if broker.hlen(_UNACKED):
                return
            farm.roles.signal("tuner", signal.SIGCONT)
    raise AssertionError("the tuner was never seen with results in hand")


def _between_batches(farm: Farm, job_id: str) -> Injected:
    """Killed when a round was planned and nothing of it is with the worker yet, or between two rounds."""
    secs = []
    for _ in range(2):
        planned = farm.count_events("tuner", "round_planned")
        deadline = time.monotonic() + _WAIT_SECS
        while farm.count_events("tuner", "round_planned") == planned and time.monotonic() < deadline:
            time.sleep(0.005)
        mark = Mark(farm, job_id)
        farm.restart("tuner")
        secs.append(mark.recovered())
    return Injected(times=2, recovery_secs=secs)


def _two_tuners(farm: Farm, job_id: str) -> Injected:
    """The one that holds the search is stopped past its lease; the other takes over; the first comes back."""
    secs = []
    times = 0
    for _ in range(2):
        owner = farm.audit.ask("SELECT lease_owner FROM searches WHERE lease_owner IS NOT NULL")
        if not owner:
            break
        pid = int(owner[0][0].split(":")[1])
        name = next(name for name in ("tuner", "tuner-second") if farm.roles.tree(name)[0].pid == pid)
        mark = Mark(farm, job_id)
        farm.roles.signal(name, signal.SIGSTOP)
        time.sleep(_STOPPED_SECS)
        farm.roles.signal(name, signal.SIGCONT)
        times += 1
        secs.append(mark.recovered())
    epochs = farm.audit.ask("SELECT max(lease_epoch) FROM searches")[0][0]
    note = f"stopped for {_STOPPED_SECS:.0f} s, counted from the stop; {epochs} epochs of the lease"
    return Injected(times=times, recovery_secs=secs, note=note)


def _poison(farm: Farm, job_id: str) -> Injected:
    """Another job's search children die one after the other; that job fails, this one goes on."""
    mark = Mark(farm, job_id)
    poison = farm.submit("bmm_relu", trials=64)
    search_id = poison["tasks"][0]["search_id"]
    killed: set[int] = set()
    deadline = time.monotonic() + 120.0
    while not JobState((job := farm.service.job(poison["id"]))["state"]).ended:
        assert time.monotonic() < deadline, job
        _kill_children(farm, search_id, killed)
        time.sleep(0.02)
    assert job["state"] == "failed", job
    return Injected(
        times=len(killed),
        recovery_secs=[mark.recovered()],
        jobs=[poison["id"]],
        note="its own job fails alone",
    )


def _kill_children(farm: Farm, search_id: int, killed: set[int]) -> None:
    for line in farm.roles.log("tuner").read_text().splitlines():
        with contextlib.suppress(ValueError, KeyError, ProcessLookupError):
            event = json.loads(line)
            started = event["event"] == "search_child_started" and event["search_id"] == search_id
            if started and event["pid"] not in killed:
                killed.add(event["pid"])
                os.kill(event["pid"], signal.SIGKILL)


def _cancel_races(farm: Farm, _job_id: str) -> Injected:
    """Cancelled after its last trial, nearer and nearer to its end, and past it."""
    jobs = []
    for race in range(_RACES):
        job = farm.submit("mm", trials=8)
        farm.wait_done(job["id"], 8)
        time.sleep(_RACE_STEP_SECS * race)
        farm.service.post(f"/v1/jobs/{job['id']}:cancel")
        jobs.append(job["id"])
    ended = [farm.service.wait_job(job_id) for job_id in jobs]
    cancelled = sum(job["state"] == "cancelled" for job in ended)
    return Injected(
        times=_RACES, jobs=jobs, note=f"{cancelled} of them ended as cancelled, the others before"
    )


def _api_killed(farm: Farm, _job_id: str) -> Injected:
    """Killed some milliseconds after a submission was sent; sent again with the same key until answered."""
    jobs, secs = [], []
    for delay_ms in (1, 20, 60, 150):
        key, name = uuid.uuid4().hex, f"killed-{delay_ms}"
        request = {**body("mm", max_trials=4), "name": name}
        threading.Thread(target=_post_once, args=(farm, request, key), daemon=True).start()
        time.sleep(delay_ms / 1000)
        began = time.monotonic()
        farm.restart("api")
        jobs.append(_post_until_answered(farm, request, key))
        secs.append(time.monotonic() - began)
        assert farm.audit.jobs_named(name) == 1
    return Injected(
        times=len(jobs), recovery_secs=secs, jobs=jobs, note="until the repeated request is answered"
    )


def _post_once(farm: Farm, request: dict[str, Any], key: str) -> None:
    with contextlib.suppress(httpx.TransportError):
        farm.service.post_with_key(request, key)


def _post_until_answered(farm: Farm, request: dict[str, Any], key: str) -> str:
    deadline = time.monotonic() + _WAIT_SECS
    while time.monotonic() < deadline:
        with contextlib.suppress(httpx.TransportError):
            answer = farm.service.post_with_key(request, key)
            if answer.is_success:
                return str(answer.json()["id"])
        time.sleep(0.1)
    raise AssertionError("the repeated submission was never answered")


TUNER_FAULTS = (
    Fault(name="tuner SIGKILL between batches", inject=_between_batches, trials=96),
    Fault(name="tuner SIGKILL within a batch", inject=_within_a_batch, trials=96),
    Fault(
        name="two tuners on one search, the owner stopped past its lease",
        inject=_two_tuners,
        setup=Setup(roles=("api", "tuner", "tuner-second", "worker")),
        trials=200,
    ),
    Fault(name="a module that kills every search child", inject=_poison, trials=96),
    Fault(name="cancel racing completion", inject=_cancel_races, trials=32),
    Fault(name="API killed during a submission with an idempotency key", inject=_api_killed, trials=32),
)
