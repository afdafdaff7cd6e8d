"""Candidates that attack the host: fork bomb, daemon, 1 TiB. The API refuses them; rows bring them in."""

import hashlib
import signal
import time
import zlib

from sandbox.fork_server import ForkServer
from sandbox.limits import Limits
from tests.chaos import hostile
from tests.chaos.farm import Farm
from tests.chaos.fault import Fault, Injected, Mark
from tests.chaos.opened import appearing
from tests.system.modules import body

_WAIT_SECS = 60.0
_ARMED_TRIALS = 3


def _armed(name: str, farm: Farm, job_id: str) -> Injected:
    """Harmless while its reference is computed, then armed for a few trials, then harmless again.

    The seconds count from when armed trials are under way, beside the other job's.
    """
    if name == hostile.FORK_BOMB:
        _see_the_wall()
    switch = farm.home / name
    evil = _submit_hostile(farm)
    # Candidates wait for the baseline, so that none of them has run when the kernel is armed.
    _wait_for_baseline(farm, evil)
    with appearing(switch) as opened:
        mark = Mark.when_under_way(farm, job_id, evil)
        processes = _wait_for_trials(farm, evil, farm.audit.done(evil) + _ARMED_TRIALS)
        went_off = opened.happened()
    if not went_off:
        raise AssertionError("no armed kernel ran: nothing was injected")
    outcomes = farm.audit.ask(
        """SELECT outcome, count(*) FROM trials
           WHERE job_id = %s AND purpose = 'search' AND outcome IS NOT NULL GROUP BY outcome""",
        [evil],
    )
    listed = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes))
    note = f"its job's outcomes: {listed}; at most {processes} processes below the worker"
    return Injected(times=_ARMED_TRIALS, recovery_secs=[mark.recovered()], jobs=[evil], note=note)


def _see_the_wall() -> None:
    """A child of the sandbox cannot fork; raises otherwise, before a bomb goes off on this machine."""
    with ForkServer(["tests.sandbox.entries"]) as server:
        child = server.spawn("tests.sandbox.entries:forks_once", limits=Limits())
        with child:
            answer, _ = child.recv(20)
    if answer["forked"]:
        raise RuntimeError("a sandbox child can fork here: the fork bomb is not armed")


def _submit_hostile(farm: Farm) -> str:
    """A job whose workload's row is changed before any tuner has read it."""
    text = hostile.module_text(farm.home)
    request = body("mm", max_trials=8, options={"isolation_key": f"hostile-{time.monotonic_ns()}"})
    farm.roles.signal("tuner", signal.SIGSTOP)
    job = farm.service.submit({**request, "spaces": _space()})
    farm.audit.execute(
        """UPDATE workloads SET module_z = %s, module_sha256 = %s
           WHERE id = (SELECT workload_id FROM tasks WHERE job_id = %s)""",
        [zlib.compress(text.encode()), hashlib.sha256(text.encode()).hexdigest(), job["id"]],
    )
    farm.roles.signal("tuner", signal.SIGCONT)
    return str(job["id"])


def _space() -> dict[str, object]:
    """The classroom's hand-written space of `mm`, as a trace: it leaves the harmful block alone."""
    import tilefarm.space
    from examples.classroom import mm_space, modules

    schedule = hostile.tvm.s_tir.Schedule(modules()["mm"])
    mm_space(schedule)
    return {"main": {"traces": [tilefarm.space.trace_json(schedule)], "postprocs": [], "mutators": {}}}


def _wait_for_baseline(farm: Farm, job_id: str) -> None:
    deadline = time.monotonic() + _WAIT_SECS
    question = "SELECT 1 FROM trials WHERE job_id = %s AND purpose = 'baseline' AND outcome IS NOT NULL"
    while not farm.audit.ask(question, [job_id]):
        if time.monotonic() > deadline:
            raise AssertionError("the baseline was not measured")
        time.sleep(0.01)


def _wait_for_trials(farm: Farm, job_id: str, count: int) -> int:
    """Until so many are done, or the job has ended; the most processes that the worker had below it."""
    deadline = time.monotonic() + _WAIT_SECS
    most = 0
    while farm.audit.done(job_id) < count:
        most = max(most, len(farm.roles.tree("worker")))
        open_ = farm.audit.ask("SELECT 1 FROM jobs WHERE id = %s AND finished_at IS NULL", [job_id])
        if not open_ or time.monotonic() > deadline:
            break
        time.sleep(0.01)
    return most


CANDIDATE_FAULTS = tuple(
    Fault(
        name=f"{words} in a candidate",
        inject=lambda farm, job_id, name=name: _armed(name, farm, job_id),
        trials=320,
    )
    for name, words in (
        (hostile.FORK_BOMB, "fork bomb"),
        (hostile.TEBIBYTE, "1 TiB allocation"),
        (hostile.DAEMON, "setsid daemon"),
    )
)
