"""One build and one measurement of one trace, in one disposable child, seen from the worker.

It turns every way a child can end into an outcome. What to shoot, and when, is measure.py's.
"""

import math
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from db.states import Outcome
from sandbox.child import Child
from sandbox.errors import ChannelError, ChildDied, ChildTimeout
from sandbox.fork_server import ForkServer
from sandbox.limits import Limits
from workers.artifacts import LIBRARY_NAME, Kernels
from workers.device import Device
from workers.holding import Attempt, Holding
from workers.messages import MAX_ERROR_CHARS, MeasurePolicy
from workers.timing import cut_off

_MAX_REPEATS = 10_000
_STAGES = ("replay", "build", "load", "check", "measure")
#: What a child may say of itself; the rest is read from how it ended.
_CHILD_OUTCOMES = {
    str(outcome): outcome
    for outcome in (
        Outcome.OK,
        Outcome.CUT_OFF,
        Outcome.REJECTED,
        Outcome.BUILD_ERROR,
        Outcome.RUN_ERROR,
        Outcome.WRONG_OUTPUT,
    )
}
_FILE_BYTES = 256 << 20
#: Of an answer: ten thousand repeats and an error text are a quarter of it.
_ANSWER_BYTES = 1 << 20
#: Of a child's processor time beyond its two time limits, before the kernel ends it.
_CPU_SLACK_SECS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ShotResult:
    """How one child fared."""

    outcome: Outcome
    run_secs: tuple[float, ...] | None = None
    error: str | None = None
    stage_secs: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """What a built child needs to measure: the right to the device's cores."""

    cpus: tuple[int, ...]
    best_latency_secs: float | None


@dataclass(slots=True, kw_only=True)
class Shot:
    """A child from its spawn to its answer; `close` ends it in any case."""

    server: ForkServer
    holding: Holding
    attempt: Attempt
    policy: MeasurePolicy
    #: That the child runs what it builds on; None: it runs nothing.
    device: Device | None = None
    #: Of the child.
    entry: str = "workers.candidate:run"
    #: Set as soon as the outcome is known; a shot that was dropped never has one.
    result: ShotResult | None = None
    #: Of a whole build, from the order to the child's word; None where there was none.
    build_secs: float | None = None
    #: Of the newest try; None before the first.
    limit_secs: float | None = None
    _child: Child | None = None
    _built_at: float = 0.0
    #: Seconds by stage, as far as they are known: also of a child that is ended from outside.
    _stage_secs: dict[str, float] = field(default_factory=dict)

    def build(
        self,
        order: Mapping[str, Any],
        *,
        cpus: tuple[int, ...],
        threads: int,
        artifacts: Kernels,
        artifact: str,
        limit_secs: float,
    ) -> None:
        """Start the child on `cpus` and wait until it is built, or has failed; raises SandboxError.

        `artifact` is the key under which `artifacts` may hold what would be built, or shall hold it.
        """
        if self.holding.dropped(self.attempt):
            return
        self.limit_secs = limit_secs
        began = time.monotonic()
        limits = _limits(self.policy, threads=threads, cpus=cpus)
        child = self.server.spawn(
            self.entry, limits=limits if self.device is None else self.device.limits(limits)
        )
        self._child = child
        self.holding.attach(child, [self.attempt])
        try:
            library = artifacts.get(artifact)
            child.send(order, *([] if library is None else [library]))
            self._stage_secs["start"], began = time.monotonic() - began, time.monotonic()
            answer, _ = child.recv(limit_secs)
        except ChildTimeout:
            limit = f"the build took more than {limit_secs:.3g} s"
            self.result = self._failed(Outcome.BUILD_TIMEOUT, limit, during="build", since=began)
        except (ChildDied, ChannelError) as error:
            reason = _death("the build", error)
            self.result = self._failed(Outcome.BUILD_ERROR, reason, during="build", since=began)
        else:
            if "outcome" in answer:
                self.result = self._answered(answer)
            else:
                with suppress(KeyError, TypeError, ValueError, OverflowError):
                    self._stage_secs |= _stages(answer)
                if library is None:
                    self.build_secs = time.monotonic() - began
                    artifacts.put(artifact, child.directory / LIBRARY_NAME)
        self._built_at = time.monotonic()
        if self.result is not None:
            self.close()

    def try_again(self) -> None:
        """Forget a build that has failed."""
        self.result = None
        self._stage_secs.clear()

    def measure(self, token: Token) -> None:
        """Hand over the cores and wait for the answer. Nothing to do where the build has failed."""
        if self._child is None or self.result is not None or self.holding.dropped(self.attempt):
            return
        began = time.monotonic()
        self._stage_secs["wait"] = began - self._built_at
        try:
            self._child.send(
                {
                    "cpus": list(token.cpus),
                    "best_latency_secs": token.best_latency_secs,
                }
            )
            answer, _ = self._child.recv(self.policy.run_timeout_secs)
        except ChildTimeout:
            limit = f"the run took more than {self.policy.run_timeout_secs:g} s"
            self.result = self._failed(Outcome.RUN_TIMEOUT, limit, during="measure", since=began)
        except ChildDied as error:
            self.result = self._read_death(error, token, since=began)
        except ChannelError as error:
            self.result = self._failed(Outcome.RUN_ERROR, str(error), during="measure", since=began)
        else:
            self.result = self._answered(answer)

    @property
    def stage_secs(self) -> Mapping[str, float]:
        """Of a child without a result."""
        return self._stage_secs

    def close(self) -> None:
        if self._child is None:
            return
        began = time.monotonic()
        self._child.close()
        self.holding.detach(self._child)
        self._child = None
        if self.result is not None:
            stages = {**self.result.stage_secs, "end": time.monotonic() - began}
            self.result = replace(self.result, stage_secs=stages)

    def _answered(self, answer: Mapping[str, Any]) -> ShotResult:
        """The child counts its own stages; what it cannot see is added."""
        result = read_answer(answer)
        return replace(result, stage_secs={**self._stage_secs, **result.stage_secs})

    def _failed(self, outcome: Outcome, error: str, *, during: str, since: float) -> ShotResult:
        """Of a child that tells nothing any more: what it took since then went into `during`."""
        self._stage_secs[during] = time.monotonic() - since
        return _failed(outcome, error, self._stage_secs)

    def _read_death(self, error: ChildDied, token: Token, *, since: float) -> ShotResult:
        limit = cut_off(self.policy, token.best_latency_secs)
        if limit is not None and error.reason == "SIGALRM":
            best = f"the best so far takes {token.best_latency_secs:.3g} s"
            text = f"stopped after {limit.alarm_secs:.3g} s; {best}"
            stopped = self._failed(Outcome.CUT_OFF, text, during="measure", since=since)
            # It was a cold run: of a warm one it says no more than that the limit is passed.
            return replace(stopped, run_secs=(limit.limit_secs,))
        return self._failed(Outcome.RUN_ERROR, _death("the run", error), during="measure", since=since)


def _limits(policy: MeasurePolicy, *, threads: int, cpus: tuple[int, ...]) -> Limits:
    cpu_secs = policy.build_timeout_secs + threads * policy.run_timeout_secs + _CPU_SLACK_SECS
    return Limits(
        address_space_bytes=policy.memory_limit_bytes,
        cpu_secs=cpu_secs,
        file_size_bytes=_FILE_BYTES,
        answer_bytes=_ANSWER_BYTES,
        cpus=cpus,
        # It links what it builds; the wall stands before any of that code runs.
        may_start_processes=True,
    )


def _failed(outcome: Outcome, error: str, stage_secs: Mapping[str, float]) -> ShotResult:
    return ShotResult(outcome=outcome, error=error[:MAX_ERROR_CHARS], stage_secs=dict(stage_secs))


def _death(what: str, error: ChildDied | ChannelError) -> str:
    stderr = error.stderr.strip().splitlines() if isinstance(error, ChildDied) else []
    said = f"; it said: {' | '.join(stderr[-3:])}" if stderr else ""
    return f"{what} died: {error}{said}"


def read_answer(answer: Mapping[str, Any]) -> ShotResult:
    """A child's final answer. The child is not trusted: what does not read is a run error."""
    try:
        secs = answer["run_secs"]
        return ShotResult(
            outcome=_CHILD_OUTCOMES[answer["outcome"]],
            run_secs=None if secs is None else tuple(_secs(number) for number in secs)[:_MAX_REPEATS],
            error=None if answer["error"] is None else str(answer["error"])[:MAX_ERROR_CHARS],
            stage_secs=_stages(answer),
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        return _failed(Outcome.RUN_ERROR, f"the child's answer does not read: {error}", {})


def _stages(answer: Mapping[str, Any]) -> dict[str, float]:
    """Seconds by stage as a child counted them; raises what read_answer catches."""
    stages = answer["stage_secs"]
    return {name: _secs(stages[name]) for name in _STAGES if name in stages}


def _secs(value: Any) -> float:
    secs = float(value)
    if not math.isfinite(secs) or secs < 0.0:
        raise ValueError(f"{value!r} is no duration")
    return secs
