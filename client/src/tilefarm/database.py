"""RemoteDatabase: the service's records as a MetaSchedule Database, for stock TVM's consumers.

A compile never fails, stalls or gets another target's schedule because of this: on any doubt a query answers
None and says why. It imports TVM; `tilefarm.connect` imports it only when called. It writes no record: the
service publishes only what it measured itself.
"""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tvm.ir.utils import derived_object
from tvm.s_tir.meta_schedule.database import PyDatabase, Workload
from tvm.target import Target

from tilefarm import applied, module
from tilefarm import target as targets
from tilefarm.client import Client
from tilefarm.errors import ModuleError, TargetError
from tilefarm.lookups import Answer, Lookups, Missing, Record
from tilefarm.miss import Miss, OnMiss, command_for, tell
from tilefarm.stats import Counters, Stats

_log = logging.getLogger("tilefarm")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What a query is about, in the service's terms."""

    workload: module.Workload
    target: dict[str, Any]


@derived_object
class RemoteDatabase(PyDatabase):  # type: ignore[misc] # TVM ships no types
    """Made by `tilefarm.connect`. Methods beyond MetaSchedule's: target, prefetch, stats, close."""

    def __init__(
        self, client: Client, lookups: Lookups, *, counters: Counters, on_miss: OnMiss, cache_dir: Path
    ) -> None:
        super().__init__()
        self._client = client
        self._lookups = lookups
        self._counters = counters
        self._on_miss = on_miss
        self._cache_dir = cache_dir
        self._told: set[tuple[str | None, str | None, str]] = set()

    def query_tuning_record(self, mod: Any, target: Any, workload_name: str | None = None) -> Any:
        found = self._guarded(lambda: self._find(mod, target, workload_name))
        return None if found is None else self._guarded(lambda: found.tuning_record(target))

    def query_schedule(self, mod: Any, target: Any, workload_name: str | None = None) -> Any:
        found = self._guarded(lambda: self._find(mod, target, workload_name))
        return None if found is None else found.schedule

    def query_ir_module(self, mod: Any, target: Any, workload_name: str | None = None) -> Any:
        found = self._guarded(lambda: self._find(mod, target, workload_name))
        return None if found is None else found.schedule.mod

    def has_workload(self, mod: Any) -> bool:  # noqa: ARG002 - TVM's signature
        """False: whether there is a record depends on the target, which this question does not name."""
        return False

    def commit_workload(self, mod: Any) -> Any:
        return Workload(mod)

    def commit_tuning_record(self, record: Any) -> None:  # noqa: ARG002 - TVM's signature
        _log.warning("a record was not committed: the service publishes only what it measured itself")

    def get_top_k(self, workload: Any, top_k: int) -> list[Any]:  # noqa: ARG002 - TVM's signature
        """Empty: a search of this process starts from nothing; the service's own do not."""
        return []

    def get_all_tuning_records(self) -> list[Any]:
        return []

    def __len__(self) -> int:
        """At least 1, without asking: TVM's zero_pipeline takes an empty database for none."""
        return 1

    def target(self, name: str) -> Any:
        """The farm's exact `tvm.target.Target` of a profile. Raises the errors of tilefarm.errors."""
        return Target(self._client.canonical_target(name))

    def prefetch(self, mod: Any, target: Any) -> int:
        """Asks for every PrimFunc of a module at once; how many have a record. Never raises."""
        return self._guarded(lambda: self._prefetch(mod, target)) or 0

    def stats(self) -> Stats:
        return self._counters.snapshot()

    def close(self) -> None:
        self._client.close()

    def _prefetch(self, mod: Any, target: Any) -> int:
        functions = [func for _, func in module.prim_funcs(mod) if not module.is_scheduled(func)]
        shashes = [module.workload_of(func).shash for func in functions]
        answers = self._ask(targets.of_tvm(_tvm_target(target)), shashes)
        return sum(isinstance(answers[shash], Record) for shash in shashes)

    def _find(self, mod: Any, target: Any, name: str | None) -> applied.Applied | None:
        try:
            asked = _Asked(workload=module.workload_of(mod), target=targets.of_tvm(_tvm_target(target)))
        except (ModuleError, TargetError) as error:
            self._counters.add(skipped=1)
            _log.debug("%s is not looked up: %s", name, error)
            return None
        shash = asked.workload.shash
        answer = self._ask(asked.target, [shash])[shash]
        if not isinstance(answer, Record):
            self._counters.add(**{"misses" if isinstance(answer, Missing) else "errors": 1})
            self._missed(asked, answer, name)
            return None
        found = applied.apply(answer, asked.workload)
        self._counters.add(hits=1)
        return found

    def _ask(self, target: Mapping[str, Any], shashes: list[str]) -> dict[str, Answer]:
        return self._lookups.ask(target, tvm_version=module.tvm_version(), workloads=shashes)

    def _missed(self, asked: _Asked, answer: Answer, name: str | None) -> None:
        """Told once for each workload, target and cause."""
        missing = isinstance(answer, Missing)
        reason = "nobody has tuned it" if isinstance(answer, Missing) else getattr(answer, "reason", "")
        function, shash = name or asked.workload.name, asked.workload.shash
        cause = (shash, targets.key(asked.target), "" if missing else "unanswered")
        if cause in self._told:
            return
        self._told.add(cause)
        command = command_for(
            self._cache_dir,
            name=function,
            shash=shash,
            module=module.to_json(asked.workload.module),
            target=asked.target,
        )
        nearest = answer.nearest if isinstance(answer, Missing) else None
        miss = Miss(
            function=function,
            shash=shash,
            target=asked.target,
            reason=reason,
            nearest=nearest,
            command=command,
        )
        tell(miss, self._on_miss)

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
