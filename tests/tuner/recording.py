"""A database that has nothing and remembers what it was asked: the oracle of every extraction."""
# ruff: noqa: ARG002 - the arguments are MetaSchedule's

from typing import Any

from tvm.ir.utils import derived_object
from tvm.s_tir.meta_schedule.database import PyDatabase, Workload

from tuner.module import canonical_module, structural_hash


@derived_object
class RecordingDatabase(PyDatabase):
    def __init__(self, *, length: int = 1) -> None:
        """With length 0 TVM's zero_pipeline does not ask, only the apply pass behind it does."""
        super().__init__()
        self._length = length
        #: (structural hash of the canonical module, target as text)
        self.asked: set[tuple[str, str]] = set()

    def query_tuning_record(self, mod: Any, target: Any, workload_name: str | None = None) -> None:
        ((_, func),) = mod.functions_items()
        self.asked.add((structural_hash(canonical_module(func)), str(target.export())))

    def query_schedule(self, mod: Any, target: Any, workload_name: str | None = None) -> None:
        self.query_tuning_record(mod, target, workload_name)

    def query_ir_module(self, mod: Any, target: Any, workload_name: str | None = None) -> None:
        self.query_tuning_record(mod, target, workload_name)

    def has_workload(self, mod: Any) -> bool:
        return False

    def commit_workload(self, mod: Any) -> Any:
        return Workload(mod)

    def commit_tuning_record(self, record: Any) -> None:
        raise AssertionError("a compile commits nothing")

    def get_top_k(self, workload: Any, top_k: int) -> list[Any]:
        return []

    def get_all_tuning_records(self) -> list[Any]:
        return []

    def __len__(self) -> int:
        return self._length
