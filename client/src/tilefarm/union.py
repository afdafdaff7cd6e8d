"""An ordered union of databases that every consumer of TVM 0.27 takes: the first that has a record answers.

Stock's OrderedUnionDatabase has no length, and `zero_pipeline` asks for it; stock's databases answer with
records of other targets, this one passes those over. A database that fails is passed over as well.
"""

import logging
from collections.abc import Callable
from typing import Any, TypeVar

from tvm.ir.utils import derived_object
from tvm.s_tir.meta_schedule.database import PyDatabase
from tvm.target import Target

from tilefarm import target as targets
from tilefarm.errors import TargetError

_log = logging.getLogger("tilefarm")
_T = TypeVar("_T")


@derived_object
class OrderedUnionDatabase(PyDatabase):  # type: ignore[misc] # TVM ships no types
    """`OrderedUnionDatabase(mine, tilefarm.connect())`; what is committed goes to the first."""

    def __init__(self, *databases: Any) -> None:
        super().__init__()
        if not databases:
            raise ValueError("a union is of at least one database")
        self._databases = databases

    def query_tuning_record(self, mod: Any, target: Any, workload_name: str | None = None) -> Any:
        found = self._first(mod, target, workload_name)
        return None if found is None else found[1]

    def query_schedule(self, mod: Any, target: Any, workload_name: str | None = None) -> Any:
        found = self._first(mod, target, workload_name)
        if found is None:
            return None
        database = found[0]
        return _guarded(database.query_schedule, mod, target, workload_name, otherwise=None)

    def query_ir_module(self, mod: Any, target: Any, workload_name: str | None = None) -> Any:
        schedule = self.query_schedule(mod, target, workload_name)
        return None if schedule is None else schedule.mod

    def has_workload(self, mod: Any) -> bool:
        return any(_guarded(one.has_workload, mod, otherwise=False) for one in self._databases)

    def commit_workload(self, mod: Any) -> Any:
        return self._databases[0].commit_workload(mod)

    def commit_tuning_record(self, record: Any) -> None:
        self._databases[0].commit_tuning_record(record)

    def get_top_k(self, workload: Any, top_k: int) -> list[Any]:
        """The first database's: a workload belongs to the database that it was committed to."""
        return list(self._databases[0].get_top_k(workload, top_k))

    def get_all_tuning_records(self) -> list[Any]:
        return [record for one in self._databases for record in one.get_all_tuning_records()]

    def __len__(self) -> int:
        """The sum; a database that has no length counts as one."""
        return sum(_length(one) for one in self._databases)

    def _first(self, mod: Any, target: Any, name: str | None) -> tuple[Any, Any] | None:
        for database in self._databases:
            record = _guarded(database.query_tuning_record, mod, target, name, otherwise=None)
            if record is not None and _guarded(_is_for, record, target, otherwise=False):
                return database, record
        return None


def _is_for(record: Any, target: Any) -> bool:
    """Whether the record is of exactly the asked target; one that names none is its database's affair."""
    if record.target is None:
        return True
    asked = target if isinstance(target, Target) else Target(target)
    return bool(_form(record.target) == _form(asked))


def _length(database: Any) -> int:
    try:
        return len(database)
    except Exception:  # noqa: BLE001 - stock's unions raise TVM's own errors here
        return 1


def _form(target: Any) -> Any:
    try:
        return targets.of_tvm(target)
    except TargetError:
        return targets.plain(target.export())


def _guarded(question: Callable[..., _T], *asked: Any, otherwise: _T) -> _T:
    try:
        return question(*asked)
    except Exception as error:  # noqa: BLE001 - the boundary to a compile: an exception here aborts it
        _log.warning("a database of the union did not answer: %s: %s", type(error).__name__, error)
        return otherwise
