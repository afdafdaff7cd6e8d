"""Questions to the service's records, bounded in time: from memory, from disk, then over the network.

What stands on disk and is old is confirmed by one conditional request; with the service away it still counts
for a while. No question raises a ServiceError.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from tilefarm import graph
from tilefarm import target as targets
from tilefarm.answers import Answer, Record, Unanswered, batch_etag, parse, question_key
from tilefarm.breaker import CircuitBreaker
from tilefarm.cache import DiskCache, Kept
from tilefarm.deadline import call_within
from tilefarm.errors import DeadlineError, ServiceError

#: The service is asked for so many workloads at once.
_CHUNK = 200
#: A miss is asked again after this: the farm may have tuned it meanwhile.
REMEMBER_MISS_SECS = 30.0
#: A kept record is confirmed after this: a better one may be there, or it may have been revoked.
FRESH_SECS = 300.0
#: With the service away, a kept record still counts for so long.
USABLE_SECS = 7 * 86_400.0


class Asking(Protocol):
    """What a Lookups asks of the service; tilefarm.client.Client, or a test's."""

    def ready(self) -> None:
        """Does what takes time and is no waiting for the service."""
        ...

    def lookup(
        self, target: Mapping[str, Any] | str, *, tvm_version: str, workloads: Sequence[str]
    ) -> Mapping[str, Any]: ...

    def lookup_if_changed(
        self, target: Mapping[str, Any], *, tvm_version: str, workloads: Sequence[str], etag: str
    ) -> Mapping[str, Any] | None:
        """None where nothing of it has changed."""
        ...


@dataclass(frozen=True, slots=True)
class _Batch:
    """What is asked in one request, and what was kept of it."""

    target: Mapping[str, Any]
    target_key: str
    tvm_version: str
    shashes: Sequence[str]
    kept: Mapping[str, Kept]

    def etag(self) -> str | None:
        """None where not all of it was kept."""
        etags = {}
        for shash in self.shashes:
            answer = self.kept[shash].answer if shash in self.kept else None
            if answer is None or (isinstance(answer, Record) and not answer.etag):
                return None
            etags[shash] = answer.etag if isinstance(answer, Record) else ""
        return batch_etag(self.target_key, self.tvm_version, etags)

    def usable(self, reason: str) -> dict[str, Answer]:
        """What counts while the service does not answer."""
        answers: dict[str, Answer] = dict.fromkeys(self.shashes, Unanswered(reason=reason))
        for shash, kept in self.kept.items():
            if isinstance(kept.answer, Record) and kept.age_secs < USABLE_SECS:
                answers[shash] = kept.answer
        return answers


class Lookups:
    def __init__(
        self,
        service: Asking | None,
        *,
        timeout_secs: float,
        breaker: CircuitBreaker,
        cache: DiskCache | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """With `service` None only what is on disk answers, however old."""
        self._service = service
        self._timeout_secs = timeout_secs
        self._breaker = breaker
        self._cache = cache
        self._now = now
        self._lock = threading.Lock()
        self._known: dict[str, tuple[float, Answer]] = {}
        self._trusted_from = float("-inf")

    def ask(
        self, target: Mapping[str, Any], *, tvm_version: str, workloads: Sequence[str]
    ) -> dict[str, Answer]:
        """One answer per structural hash, within the deadline. `target` is canonical."""
        target_key = targets.key(target)
        deadline = self._now() + self._timeout_secs
        answers: dict[str, Answer] = {}
        kept: dict[str, Kept] = {}
        for shash in dict.fromkeys(workloads):
            known = self._local(question_key(target_key, tvm_version, shash), tvm_version)
            if isinstance(known, Kept):
                kept[shash] = known
            elif known is not None:
                answers[shash] = known
        still_open = [shash for shash in dict.fromkeys(workloads) if shash not in answers]
        for start in range(0, len(still_open), _CHUNK):
            chunk = still_open[start : start + _CHUNK]
            old = {shash: kept[shash] for shash in chunk if shash in kept}
            batch = _Batch(target, target_key, tvm_version, chunk, old)
            answers.update(self._fetch(batch, timeout_secs=deadline - self._now()))
        return answers

    def would_wait(self, target: Mapping[str, Any], *, tvm_version: str, workload: str) -> bool:
        if self._service is None or self._breaker.remaining_secs() > 0:
            return False
        key = question_key(targets.key(target), tvm_version, workload)
        known = self._local(key, tvm_version)
        return known is None or isinstance(known, Kept)

    def refresh(self) -> None:
        with self._lock:
            self._known.clear()
            self._trusted_from = time.time()

    def _local(self, question: str, tvm_version: str) -> Answer | Kept | None:
        """An answer that counts; else what was kept and is to be confirmed; else None."""
        with self._lock:
            until, answer = self._known.get(question, (float("-inf"), None))
        if answer is not None and until > self._now():
            return answer
        kept = None if self._cache is None else self._cache.read(question, tvm_version)
        if kept is None:
            return None
        fresh_secs = FRESH_SECS if isinstance(kept.answer, Record) else REMEMBER_MISS_SECS
        fresh = kept.age_secs < fresh_secs and time.time() - kept.age_secs >= self._trusted_from
        if fresh or (self._service is None and isinstance(kept.answer, Record)):
            self._remember(question, kept.answer, fresh_secs - kept.age_secs)
            return kept.answer
        return kept

    def _fetch(self, batch: _Batch, *, timeout_secs: float) -> dict[str, Answer]:
        service = self._service
        if service is None:
            return dict.fromkeys(
                batch.shashes, Unanswered(reason="offline, and not in the cache of this host")
            )
        cooling_secs = self._breaker.remaining_secs()
        if cooling_secs > 0:
            return batch.usable(f"the service failed a moment ago; it is asked again in {cooling_secs:.0f} s")
        patience_secs = self._breaker.patience_secs(self._timeout_secs)
        began = self._now()
        try:
            service.ready()
            timeout_secs += self._now() - began
            began = self._now()
            answers, confirmed = call_within(
                lambda: self._answered(service, batch),
                timeout_secs=max(min(timeout_secs, patience_secs), 0.0),
            )
        except ServiceError as error:
            self._breaker.failed(waited_secs=self._now() - began)
            return batch.usable(str(error))
        self._keep(batch, answers, confirmed=confirmed)
        return dict(answers)

    def _answered(self, service: Asking, batch: _Batch) -> tuple[Mapping[str, Answer], bool]:
        """What the service answers, and whether it only confirmed what was kept."""
        began = self._now()
        body = _request(service, batch)
        answers: Mapping[str, Answer] = {shash: kept.answer for shash, kept in batch.kept.items()}
        if body is not None:
            found = parse(body, batch.target, batch.tvm_version, batch.shashes)
            answers = {shash: self._checked(answer, began) for shash, answer in found.items()}
        if self._now() - began <= self._timeout_secs:
            self._breaker.succeeded()
        return answers, body is None

    def _checked(self, answer: Answer, began: float) -> Answer:
        """Once for each module, however often and by however many processes it will be loaded from the cache.

        DeadlineError where whoever asked has gone on: its compile needs the processor.
        """
        if not isinstance(answer, Record):
            return answer
        if self._now() - began > self._timeout_secs:
            raise DeadlineError("the answer took too long to check")
        return replace(answer, is_checked=graph.is_safe(answer.module))

    def _keep(self, batch: _Batch, answers: Mapping[str, Answer], *, confirmed: bool) -> None:
        found = {
            question_key(batch.target_key, batch.tvm_version, shash): answer
            for shash, answer in answers.items()
            if not isinstance(answer, Unanswered)
        }
        for question, answer in found.items():
            self._remember(question, answer, REMEMBER_MISS_SECS)
        if self._cache is None:
            return
        if confirmed:
            self._cache.confirm(found)
        else:
            self._cache.write(found)

    def _remember(self, question: str, answer: Answer, miss_secs: float) -> None:
        """A record stays this process's for good: one compile gets one answer."""
        until = float("inf") if isinstance(answer, Record) else self._now() + miss_secs
        with self._lock:
            self._known[question] = (until, answer)


def _request(service: Asking, batch: _Batch) -> Mapping[str, Any] | None:
    etag = batch.etag()
    if etag is None:
        return service.lookup(batch.target, tvm_version=batch.tvm_version, workloads=batch.shashes)
    return service.lookup_if_changed(
        batch.target, tvm_version=batch.tvm_version, workloads=batch.shashes, etag=etag
    )
