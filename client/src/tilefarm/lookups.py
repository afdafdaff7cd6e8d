"""Questions to the service's database of records, bounded in time, and their answers for this process.

An answer is a Record, a Missing, or an Unanswered; no question raises a ServiceError. Whether a record fits
the asked module is decided in tilefarm.applied.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilefarm import target as targets
from tilefarm.breaker import CircuitBreaker
from tilefarm.deadline import call_within
from tilefarm.errors import BadAnswerError, ServiceError, TargetError

#: The service is asked for so many workloads at once.
_CHUNK = 200
#: A miss is asked again after this: the farm may have tuned it meanwhile.
REMEMBER_MISS_SECS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The service's best for a workload on exactly one target."""

    record_id: str
    #: Node JSON of the workload's canonical module; the trace finds its blocks by name there.
    module: str
    #: TVM's trace JSON.
    trace: Any
    run_secs: tuple[float, ...]
    tvm_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """The service has no record."""

    #: The nearest thing that it has, in words.
    nearest: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unanswered:
    """Nobody knows: the service did not answer, or not sensibly."""

    reason: str


Answer = Record | Missing | Unanswered
#: (canonical target, TVM version, structural hashes) -> the body that POST /v1/lookup answers.
Question = Callable[[Mapping[str, Any], str, Sequence[str]], Mapping[str, Any]]


class Lookups:
    def __init__(
        self,
        question: Question,
        *,
        timeout_secs: float,
        breaker: CircuitBreaker,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._question = question
        self._timeout_secs = timeout_secs
        self._breaker = breaker
        self._now = now
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], tuple[float, Answer]] = {}

    def ask(
        self, target: Mapping[str, Any], *, tvm_version: str, workloads: Sequence[str]
    ) -> dict[str, Answer]:
        """One answer per structural hash, within the deadline. `target` is canonical."""
        key = targets.key(target)
        remembered = {shash: self._remembered(key, shash) for shash in workloads}
        answers = {shash: answer for shash, answer in remembered.items() if answer is not None}
        open_questions = [shash for shash in dict.fromkeys(workloads) if shash not in answers]
        deadline = self._now() + self._timeout_secs
        for start in range(0, len(open_questions), _CHUNK):
            chunk = open_questions[start : start + _CHUNK]
            found = self._fetch(target, tvm_version, chunk, timeout_secs=deadline - self._now())
            self._remember(key, found)
            answers.update(found)
        return answers

    def _fetch(
        self, target: Mapping[str, Any], tvm_version: str, chunk: Sequence[str], *, timeout_secs: float
    ) -> dict[str, Answer]:
        cooling_secs = self._breaker.remaining_secs()
        if cooling_secs > 0:
            reason = f"the service failed a moment ago; it is asked again in {cooling_secs:.0f} s"
            return dict.fromkeys(chunk, Unanswered(reason=reason))
        try:
            body = call_within(
                lambda: self._question(target, tvm_version, chunk), timeout_secs=max(timeout_secs, 0.0)
            )
            answers = _parse(body, target, tvm_version, chunk)
        except ServiceError as error:
            self._breaker.failed()
            return dict.fromkeys(chunk, Unanswered(reason=str(error)))
        self._breaker.succeeded()
        return answers

    def _remembered(self, key: str, shash: str) -> Answer | None:
        with self._lock:
            until, answer = self._known.get((key, shash), (float("-inf"), None))
        return answer if until > self._now() else None

    def _remember(self, key: str, answers: Mapping[str, Answer]) -> None:
        with self._lock:
            for shash, answer in answers.items():
                if isinstance(answer, Record):
                    self._known[(key, shash)] = (float("inf"), answer)
                elif isinstance(answer, Missing):
                    self._known[(key, shash)] = (self._now() + REMEMBER_MISS_SECS, answer)


def _parse(
    body: Mapping[str, Any], target: Mapping[str, Any], tvm_version: str, chunk: Sequence[str]
) -> dict[str, Answer]:
    """BadAnswerError where the body answers another question than was asked."""
    records, missing = body.get("records"), body.get("missing", [])
    if not isinstance(records, dict) or not isinstance(missing, list):
        raise BadAnswerError("a lookup is answered without records")
    _check_target(body, target)
    answers: dict[str, Answer] = {}
    nearest = {item.get("shash"): item.get("nearest") for item in missing if isinstance(item, dict)}
    for shash in chunk:
        found = records.get(shash)
        if found:
            answers[shash] = _record(found, tvm_version)
        else:
            near = nearest.get(shash)
            answers[shash] = Missing(nearest=str(near) if near else None)
    return answers


def _check_target(body: Mapping[str, Any], target: Mapping[str, Any]) -> None:
    try:
        same = targets.canonical(body.get("target", {})) == dict(target)
    except TargetError as error:
        raise BadAnswerError(f"a lookup is answered for no target: {error}") from error
    if not same or body.get("target_key") != targets.key(target):
        raise BadAnswerError("a lookup is answered for another target than was asked")


def _record(found: Any, tvm_version: str) -> Record:
    first = found[0] if isinstance(found, list) else found
    if not isinstance(first, dict):
        raise BadAnswerError("a record is no object")
    module, run_secs = first.get("module"), first.get("run_secs")
    if not isinstance(module, str) or not isinstance(run_secs, list) or "trace" not in first:
        raise BadAnswerError("a record lacks its module, trace or run_secs")
    if first.get("tvm_version") != tvm_version:
        raise BadAnswerError(f"a record is of TVM {first.get('tvm_version')!r}, not {tvm_version}")
    if not run_secs or not all(isinstance(secs, int | float) and secs > 0 for secs in run_secs):
        raise BadAnswerError("a record's run_secs are no times")
    return Record(
        record_id=str(first.get("record_id")),
        module=module,
        trace=first["trace"],
        run_secs=tuple(float(secs) for secs in run_secs),
        tvm_version=tvm_version,
    )
