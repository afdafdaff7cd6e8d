"""RemoteDatabase: the service's records as a MetaSchedule Database, for stock TVM's consumers.

A compile never fails, stalls or gets another target's schedule because of this: on any doubt a query answers
None and says why. It imports TVM; `tilefarm.connect` imports it only when called. What is committed here goes
to quarantine at most: the service publishes only what it measured itself.
"""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from tvm.ir.utils import derived_object
from tvm.s_tir.meta_schedule.database import PyDatabase, Workload
from tvm.target import Target

from tilefarm import applied, lockfile, module, visible
from tilefarm import target as targets
from tilefarm.anchor import ModuleEquality
from tilefarm.answers import Answer, Answering, Missing, Record, Unanswered
from tilefarm.breaker import CircuitBreaker
from tilefarm.cache import DiskCache
from tilefarm.client import Client
from tilefarm.committed import Committed
from tilefarm.contributing import Contributor
from tilefarm.errors import (
    BadAnswerError,
    ModuleError,
    OfflineError,
    ProblemError,
    ServiceError,
    SignatureError,
    TargetError,
)
from tilefarm.misses import Misses
from tilefarm.near import ANCHOR_BLOCK, NearHit, NearHits
from tilefarm.proven import Proven
from tilefarm.signatures import Verifier
from tilefarm.stats import Counters, Stats
from tilefarm.workloads import RecentWorkloads

_log = logging.getLogger("tilefarm")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What a query is about, in the service's terms."""

    workload: module.Workload
    target: dict[str, Any]


@derived_object
class RemoteDatabase(PyDatabase):  # type: ignore[misc] # TVM ships no types
    """Made by `tilefarm.connect`. Methods beyond MetaSchedule's: target, prefetch, refresh, stats, close."""

    def __init__(  # noqa: PLR0913 - made by `connect` alone
        self,
        client: Client | None,
        answering: Answering,
        *,
        lock: lockfile.Lock | None,
        cache: DiskCache,
        proven: Proven,
        counters: Counters,
        misses: Misses,
        contributor: Contributor | None,
        verifier: Verifier | None = None,
        near: NearHits | None = None,
        module_equality: ModuleEquality = "structural",
        breaker: CircuitBreaker,
        timeout_secs: float,
    ) -> None:
        """`client` is None where no request may be made."""
        super().__init__()
        self._client = client
        self._answering = answering
        self._lock = lock
        self._cache = cache
        self._proven = proven
        self._contributor = contributor
        self._own = None if contributor is None else Committed(module_equality)
        self._committed = None if self._own is None else self._own.database
        self._counters = counters
        self._misses = misses
        self._verifier = verifier
        self._near = near
        self._workloads = RecentWorkloads()
        self._near_told: set[str] = set()
        self._distrusted: set[str] = set()
        self._breaker = breaker
        self._timeout_secs = timeout_secs
        #: On records that proved wrong.
        self._wasted_secs = 0.0

    def query_tuning_record(self, mod: Any, target: Any, workload_name: str | None = None) -> Any:
        found = self._guarded(lambda: self._find(mod, target, workload_name))
        if found is None:
            return self._of_committed("query_tuning_record", mod, target, workload_name)
        return self._guarded(lambda: found.tuning_record(target))

    def query_schedule(self, mod: Any, target: Any, workload_name: str | None = None) -> Any:
        found = self._guarded(lambda: self._find(mod, target, workload_name))
        if found is None:
            return self._of_committed("query_schedule", mod, target, workload_name)
        return self._guarded(found.schedule)

    def query_ir_module(self, mod: Any, target: Any, workload_name: str | None = None) -> Any:
        found = self._guarded(lambda: self._find(mod, target, workload_name))
        if found is None:
            return self._of_committed("query_ir_module", mod, target, workload_name)
        return self._guarded(lambda: found.schedule().mod)

    def has_workload(self, mod: Any) -> bool:
        """Of what was committed here: what the service has depends on a target, which this does not name."""
        return self._committed is not None and bool(self._committed.has_workload(mod))

    def commit_workload(self, mod: Any) -> Any:
        return Workload(mod) if self._committed is None else self._committed.commit_workload(mod)

    def commit_tuning_record(self, record: Any) -> None:
        """With mode="read-write": kept in this process, and sent to the service, into quarantine."""
        contributor = self._contributor
        if self._committed is None or contributor is None:
            _log.warning('a record was not committed: connect with mode="read-write" to send it')
            return
        self._committed.commit_tuning_record(record)
        self._guarded(lambda: contributor.contribute(record))

    def get_top_k(self, workload: Any, top_k: int) -> list[Any]:
        """Of what was committed here: a search of this process starts from nothing, the service's do not."""
        return [] if self._committed is None else list(self._committed.get_top_k(workload, top_k))

    def get_all_tuning_records(self) -> list[Any]:
        return [] if self._committed is None else list(self._committed.get_all_tuning_records())

    def __len__(self) -> int:
        """At least 1, without asking: TVM's zero_pipeline takes an empty database for none."""
        return max(1, 0 if self._committed is None else len(self._committed))

    def target(self, name: str) -> Any:
        """The farm's exact `tvm.target.Target` of a profile. Raises the errors of tilefarm.errors.

        With a lock file it is that of the file; with the service away, what it said last.
        """
        if self._lock is not None and self._lock.profile == name:
            return Target(dict(self._lock.target))
        try:
            found = self._farms_target(name)
        except ServiceError as error:
            refused = isinstance(error, ProblemError) and not error.is_outage
            kept = None if refused else self._cache.read_profile(name)
            if kept is None:
                raise
            return Target(kept)
        self._cache.write_profile(name, found)
        return Target(found)

    def _farms_target(self, name: str) -> dict[str, Any]:
        client = self._client
        if client is None:
            raise OfflineError(f"offline, the target {name!r} is not known on this host")
        client.ready()
        return self._breaker.call(lambda: client.canonical_target(name), timeout_secs=self._timeout_secs)

    def prefetch(self, mod: Any, target: Any) -> int:
        """Asks for every PrimFunc of a module at once; how many have a record. Never raises."""
        return self._guarded(lambda: self._prefetch(mod, target)) or 0

    def refresh(self) -> None:
        """After tuning: what was found or missed until now is confirmed before it counts again."""
        self._answering.refresh()
        self._wasted_secs = 0.0
        self._misses.forget()
        if self._near is not None:
            self._near.forget()

    def stats(self) -> Stats:
        return self._counters.snapshot()

    def close(self) -> None:
        self._misses.leave()
        if self._contributor is not None:
            self._contributor.leave()
        if self._client is not None:
            self._client.close()

    def _of_committed(self, question: str, mod: Any, target: Any, name: str | None) -> Any:
        """What a tuning run of this process found, for exactly this target."""
        own = self._own
        return None if own is None else self._guarded(lambda: own.query(question, mod, target, name))

    def _prefetch(self, mod: Any, target: Any) -> int:
        shashes = [workload.shash for workload in self._workloads.all_of(mod)]
        answers = self._ask(targets.of_tvm(_tvm_target(target)), shashes)
        return sum(isinstance(answers[shash], Record) for shash in shashes)

    def _find(self, mod: Any, target: Any, name: str | None) -> applied.Applied | None:
        try:
            asked = _Asked(workload=self._workloads.of(mod), target=targets.of_tvm(_tvm_target(target)))
        except (ModuleError, TargetError) as error:
            self._counters.add(skipped=1)
            _log.debug("%s is not looked up: %s", name, error)
            return None
        shash = asked.workload.shash
        answer = self._trusted(self._ask(asked.target, [shash, *self._along(asked)])[shash], asked)
        near = self._near_hit(asked, answer, name)
        if near is not None:
            return near
        if not isinstance(answer, Record):
            self._counters.add(**{"misses" if isinstance(answer, Missing) else "errors": 1})
            self._misses.told(asked.workload, asked.target, answer, name)
            return None
        found = self._applied(answer, asked.workload)
        self._counters.add(hits=1)
        return found

    def _applied(self, record: Record, workload: module.Workload) -> applied.Applied:
        """Raises what `applied.apply` does; BadAnswerError where too much time went into wrong records."""
        if self._wasted_secs > self._timeout_secs:
            raise BadAnswerError("the service's records took too long to prove wrong: no more are tried")
        began = time.monotonic()
        try:
            return applied.apply(record, workload, self._proven)
        except Exception:
            self._wasted_secs += time.monotonic() - began
            raise

    def _near_hit(self, asked: _Asked, answer: Answer, name: str | None) -> applied.Applied | None:
        """Where a near record is wanted, there and good; else the miss goes its way."""
        if self._near is None or not isinstance(answer, Missing):
            return None
        shash = asked.workload.shash
        workloads = {one.shash: one.module for one in (*self._others(), asked.workload)}
        found = self._near.ask(asked.target, tvm_version=module.tvm_version(), workloads=workloads)[shash]
        if found is None or not isinstance(self._trusted(found.record, asked, found.target), Record):
            return None
        hit = self._near_applied(found, asked)
        if hit is None:
            return None
        if shash not in self._near_told:
            self._near_told.add(shash)
            _log.warning("no exact record for %s (workload %s): %s", name, shash, found)
        self._counters.add(near=1)
        return hit

    def _near_applied(self, found: NearHit, asked: _Asked) -> applied.Applied | None:
        """None where another function's schedule cannot be had for the asked one: a miss, and no error."""
        if found.rule != ANCHOR_BLOCK:
            return self._applied(found.record, asked.workload)
        try:
            return applied.apply_anchored(found.record, asked.workload, Target(asked.target))
        except Exception as error:  # noqa: BLE001 - TVM raises anything where a trace does not fit a function
            _log.info("%s does not fit workload %s: %s", found, asked.workload.shash, str(error)[-200:])
            return None

    def _trusted(self, answer: Answer, asked: _Asked, target: Mapping[str, Any] | None = None) -> Answer:
        """The answer, unless it is a record that nobody trusted has signed. Said once, whatever `on_miss`.

        `target` is the record's where it is near.
        """
        if self._verifier is None or not isinstance(answer, Record):
            return answer
        try:
            self._verifier.check(answer, target_key=targets.key(target or asked.target))
        except SignatureError as error:
            if str(error) not in self._distrusted:
                self._distrusted.add(str(error))
                _log.warning("no record of workload %s: %s", asked.workload.shash, error)
            return Unanswered(reason=str(error))
        return answer

    def _ask(self, target: Mapping[str, Any], shashes: list[str]) -> dict[str, Answer]:
        return self._answering.ask(target, tvm_version=module.tvm_version(), workloads=shashes)

    def _along(self, asked: _Asked) -> list[str]:
        """The other functions of the module that is being compiled, where asking takes a request anyway."""
        shash, version = asked.workload.shash, module.tvm_version()
        if not self._answering.would_wait(asked.target, tvm_version=version, workload=shash):
            return []
        return [workload.shash for workload in self._others()]

    def _others(self) -> list[module.Workload]:
        """The functions of the module that is being compiled, where it can be seen."""
        try:
            mod = visible.module_being_compiled()
            return [] if mod is None else self._workloads.all_of(mod)
        except Exception as error:  # noqa: BLE001 - another function's fault must not cost this one its record
            _log.debug("a module is not asked for as a whole: %s", error)
            return []

    def _guarded(self, question: Callable[[], _T]) -> _T | None:
        started = time.monotonic()
        try:
            return question()
        except Exception as error:  # noqa: BLE001 - the boundary to a compile: an exception here aborts it
            self._counters.add(errors=1)
            _log.warning("no record, the function stays untuned: %s: %s", type(error).__name__, error)
            return None
        finally:
            self._counters.add(total_secs=time.monotonic() - started)


def _tvm_target(target: Any) -> Any:
    return target if isinstance(target, Target) else Target(target)
