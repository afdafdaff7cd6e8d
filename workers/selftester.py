"""When the device tests itself, and what follows: facts for the fleet, quarantine where it drifted.

One thread from the worker's start to its end. It tests soon after the start and then every so often, only
while no chunk is there; how it is tested is workers/selftest.py's, what a slow result means
workers/drift.py's.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import structlog

from sandbox.errors import SandboxError
from workers.drift import Judgement, Verdict, judge
from workers.errors import KernelsMissing, WorkerError
from workers.selftest import SelfTest
from workers.selftest_history import HistoryRun, append_history, read_history, well_secs
from workers.turn import Turn

_log = structlog.get_logger(__name__)
#: A chunk is likely to follow the one before: so long it must have been quiet.
_IDLE_SECS = 3.0
#: How often a device in quarantine tests itself, where the setting does not say oftener.
_QUARANTINE_SECS = 60.0
_LOOK_SECS = 0.25
_STOP_SECS = 2.0
_MOST_ERROR_CHARS = 1000
#: What a test may fail with, its history's disk included: the device is tested again later.
_FAULTS = (SandboxError, WorkerError, OSError, ValueError, LookupError, TypeError, ArithmeticError)


class TestsDevice(Protocol):
    """What measures (workers/selftest.py)."""

    def run(self) -> SelfTest: ...

    def reference_secs(self) -> float: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceReport:
    """What the worker's heartbeat tells of its device."""

    facts: dict[str, Any]
    quarantined: bool = False


@dataclass(slots=True, kw_only=True)
class SelfTester:
    """`report` and `quarantined` may be read by any thread."""

    tester: TestsDevice
    turn: Turn
    history: Path
    device_class: str
    #: Of the reference kernel, as the history keeps it.
    kernel: str
    #: 0: the device is never tested.
    every_secs: float
    #: Relative slowness that counts as drift.
    drift_limit: float
    #: Called when the device goes into quarantine, and when it comes back.
    set_quarantined: Callable[[bool], None]
    _report: DeviceReport = field(default_factory=lambda: DeviceReport(facts={}))
    _stopped: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        if self.every_secs > 0:
            self._thread = threading.Thread(target=self._run, name="selftest", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self.turn.end_tests()
        if self._thread is not None:
            self._thread.join(_STOP_SECS)

    def report(self) -> DeviceReport:
        return self._report

    @property
    def quarantined(self) -> bool:
        return self._report.quarantined

    def _run(self) -> None:
        while self._idle():
            done = self._test()
            every = min(self.every_secs, _QUARANTINE_SECS) if self.quarantined else self.every_secs
            self._stopped.wait(every if done else _LOOK_SECS)

    def _idle(self) -> bool:
        """Wait until no chunk has been there for a while, the start included; False when the worker ends."""
        while self.turn.idle_secs < _IDLE_SECS:
            if self._stopped.wait(_LOOK_SECS):
                break
        return not self._stopped.is_set()

    def _test(self) -> bool:
        """Test once and conclude; False where a chunk came between, or there is nothing to test with yet."""
        try:
            result = self.tester.run()
            judgement = self._judge(result.noise.reference_secs)
        except KernelsMissing:
            return False
        except _FAULTS as error:
            if self.turn.idle_secs < _IDLE_SECS or self._stopped.is_set():
                return False
            _log.warning("selftest_failed", kind=type(error).__name__, reason=str(error))
            facts = {**self._report.facts, "selftest_error": str(error)[:_MOST_ERROR_CHARS]}
            self._report = DeviceReport(facts=facts, quarantined=self.quarantined)
            return True
        self._conclude(result, judgement)
        return True

    def _judge(self, reference_secs: float) -> Judgement:
        """By the history; slow runs are repeated at once until they confirm each other, or one is well."""
        history = well_secs(read_history(self.history), device_class=self.device_class, kernel=self.kernel)
        runs = [reference_secs]
        judgement = judge(history, runs, limit=self.drift_limit)
        while judgement.verdict == Verdict.SUSPECT:
            runs.append(self.tester.reference_secs())
            judgement = judge(history, runs, limit=self.drift_limit)
        return judgement

    def _conclude(self, result: SelfTest, judgement: Judgement) -> None:
        at = datetime.now(UTC).isoformat(timespec="seconds")
        drifted = judgement.verdict == Verdict.DRIFTED
        self._remember(at, result.noise.reference_secs, well=not drifted)
        slower = None if judgement.slower is None else round(judgement.slower, 4)
        tested = {**result.as_json(), "at": at, "slower_than_history": slower}
        reason = _reason(slower, self.drift_limit) if drifted and slower is not None else None
        before = self.quarantined
        facts = {"selftest": tested, "selftest_error": None, "quarantine": reason}
        self._report = DeviceReport(facts=facts, quarantined=drifted)
        _log.info("selftest_done", **tested)
        if drifted:
            _log.error("device_quarantined", reason=reason)
        elif before:
            _log.info("device_well_again", slower_than_history=slower)
        if drifted != before:
            self.set_quarantined(drifted)

    def _remember(self, at: str, reference_secs: float, *, well: bool) -> None:
        run = HistoryRun(
            at=at,
            device_class=self.device_class,
            kernel=self.kernel,
            reference_secs=reference_secs,
            well=well,
        )
        try:
            append_history(self.history, run)
        except OSError as error:
            _log.warning("history_not_kept", path=str(self.history), reason=str(error))


def _reason(slower: float, limit: float) -> str:
    return (
        f"the reference kernel is {slower:.0%} slower than this device's own history; "
        f"more than {limit:.0%} is drift"
    )
