"""What a fault is, and what must hold after it, whatever it was."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from db.states import JobState, TrialState
from tests.chaos.farm import Farm, Setup
from tests.system.service import accounted

#: Within so many seconds everything that a fault touched has its result.
_RECOVERY_SECS = 150.0
_END_SECS = 200.0
_UNDER_WAY_SECS = 60.0
#: What the allocator of a worker may keep beyond its first job.
_MEMORY_SLACK_BYTES = 48 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Injected:
    """What was done to the farm."""

    times: int
    #: From each fault's end until all that was under way had its result, seconds.
    recovery_secs: Sequence[float] = ()
    #: Jobs that the fault made besides.
    jobs: Sequence[str] = ()
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    name: str
    inject: Callable[[Farm, str], Injected]
    setup: Setup = field(default_factory=Setup)
    module: str = "mm_relu"
    trials: int = 64
    #: The fault comes when so many trials are done.
    after: int = 4
    #: States in which the job may end.
    ends: frozenset[JobState] = frozenset({JobState.SUCCEEDED})
    #: Why it cannot be done on this host, or None.
    unable: Callable[[], str | None] = lambda: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A line of the table. `wrong` names each invariant that did not hold."""

    fault: str
    injected: int = 0
    recovery_secs: float | None = None
    lost: int = 0
    doubled: int = 0
    trials: int = 0
    note: str = ""
    wrong: Sequence[str] = ()
    not_run: str | None = None


class Mark:
    """The moment of a fault: the database's time, and the trials that were under way."""

    def __init__(self, farm: Farm, job_id: str, *others: str) -> None:
        """`others`: jobs whose trials are waited for as well."""
        self._farm = farm
        self._job_id = job_id
        question = """SELECT id, job_id FROM trials
                      WHERE job_id = ANY(%s) AND state = 'dispatched' AND purpose = 'search'"""
        under_way = farm.audit.ask(question, [[job_id, *others]])
        self._ids = [row[0] for row in under_way]
        #: Jobs that had any.
        self.jobs = frozenset(row[1] for row in under_way)
        self._since = farm.audit.now()

    @classmethod
    def when_under_way(cls, farm: Farm, job_id: str, other: str) -> "Mark":
        """As soon as the other job has trials under way, beside those of the first.

        Raises AssertionError where it never has.
        """
        deadline = time.monotonic() + _UNDER_WAY_SECS
        while other not in (mark := cls(farm, job_id, other)).jobs:
            if time.monotonic() > deadline:
                raise AssertionError("nothing was under way for the fault to meet")
            time.sleep(0.01)
        return mark

    def restart_clock(self) -> None:
        """The fault is over only now: the seconds count from here."""
        self._since = self._farm.audit.now()

    def recovered(self) -> float:
        """Wait until all that was under way has its result, and one result came at all; seconds."""
        deadline = time.monotonic() + _RECOVERY_SECS
        while time.monotonic() < deadline:
            secs = self._recovery_secs()
            if secs is not None:
                return max(0.0, secs)
            time.sleep(0.05)
        raise AssertionError(f"not recovered within {_RECOVERY_SECS} s")

    def _recovery_secs(self) -> float | None:
        question = """SELECT count(*) FILTER (WHERE state IN ('queued', 'dispatched')),
                             extract(epoch FROM max(done_at)) FROM trials WHERE id = ANY(%s)"""
        (open_, last), *_ = self._farm.audit.ask(question, [self._ids])
        first = self._farm.audit.first_result_after(self._job_id, self._since)
        if open_ or (first is None and not self._ended()):
            return None
        newest = max(float(last or 0.0), first or 0.0)
        return newest - self._since

    def _ended(self) -> bool:
        states = [
            row[0] for row in self._farm.audit.ask("SELECT state FROM jobs WHERE id = %s", [self._job_id])
        ]
        return JobState(states[0]).ended


def run(fault: Fault, farm: Farm) -> Row:
    """Do it in the middle of a job and see the job to its end."""
    job = farm.submit(fault.module, trials=fault.trials)
    farm.wait_done(job["id"], fault.after)
    injected = fault.inject(farm, job["id"])
    ended = [farm.service.wait_job(job_id, timeout_secs=_END_SECS) for job_id in (job["id"], *injected.jobs)]
    wrong = [word for job in ended for word in _wrong(farm, job)]
    if ended[0]["state"] not in fault.ends:
        wrong.append(f"the job {ended[0]['state']}: {ended[0]['error']}")
    grown = farm.resident_bytes() - farm.worker_bytes if "worker" in farm.roles.names() else 0
    if grown > _MEMORY_SLACK_BYTES:
        wrong.append(f"the worker's memory grew by {grown >> 20} MiB")
    return Row(
        fault=fault.name,
        injected=injected.times,
        recovery_secs=max(injected.recovery_secs, default=None),
        lost=sum(_lost(job) for job in ended),
        doubled=sum(farm.audit.doubled(job["id"]) for job in ended),
        trials=sum(job["trials"]["submitted"] for job in ended),
        note=injected.note,
        wrong=wrong,
    )


def _wrong(farm: Farm, job: dict[str, Any]) -> list[str]:
    """Invariants that do not hold for a job that has ended."""
    counts = farm.audit.by_state(job["id"])
    checks = {
        "submitted is not the sum of the states": accounted(job),
        "the rows say otherwise than the API": sum(counts.values()) == job["trials"]["submitted"],
        "trials are open though the job ended": not any(
            counts.get(state) for state in (TrialState.QUEUED, TrialState.DISPATCHED)
        ),
        "a trial was recorded twice": not farm.audit.doubled(job["id"]),
        "trials were lost": not _lost(job),
        "the budget was exceeded": job["trials"]["submitted"] <= job["max_trials"]
        and not farm.audit.overdrawn(),
        "the published best regressed": not farm.audit.regressed(),
    }
    return [f"{job['id']}: {words}" for words, holds in checks.items() if not holds]


def _lost(job: dict[str, Any]) -> int:
    """Trials that the farm gave up, and budget of a job that succeeded without having used it up."""
    given_up = int(job["trials"]["failed"])
    if job["state"] != JobState.SUCCEEDED or any(task["exhausted"] for task in job["tasks"]):
        return given_up
    return given_up + int(job["max_trials"] - job["trials"]["submitted"])
