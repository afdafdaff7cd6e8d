"""What a tuning run of this process committed, in memory: for the search that goes on, and for its compile.

Of exactly the asked target. By the module equality `anchor-block` another function's record may answer; it
is made one of the asked function first, which stock leaves to its consumers.
"""

import logging
from typing import Any

from tvm.s_tir.meta_schedule.database import MemoryDatabase
from tvm.target import Target

from tilefarm import applied, module
from tilefarm import target as targets
from tilefarm.anchor import ModuleEquality
from tilefarm.answers import Record
from tilefarm.trace import renamed
from tilefarm.union import OrderedUnionDatabase

_log = logging.getLogger("tilefarm")


class Committed:
    def __init__(self, module_equality: ModuleEquality) -> None:
        #: What was committed, as stock keeps it.
        self.database = MemoryDatabase(module_equality=module_equality)
        self._of_target = OrderedUnionDatabase(self.database)

    def query(self, question: str, mod: Any, target: Any, name: str | None) -> Any:
        """`question`: query_tuning_record, query_schedule or query_ir_module. None where there is nothing."""
        if len(self.database) == 0:
            return None
        target = target if isinstance(target, Target) else Target(target)
        record = self._of_target.query_tuning_record(mod, target, name)
        if record is None:
            return None
        if module.equal(record.workload.mod, mod, skip_tensor_content=True):
            return getattr(self._of_target, question)(mod, target, name)
        found = _anchored(record, mod, target)
        if question == "query_tuning_record":
            return found.tuning_record(target)
        return found.schedule() if question == "query_schedule" else found.schedule().mod


def _anchored(record: Any, mod: Any, target: Any) -> applied.Applied:
    """Raises what `applied.apply_anchored` does."""
    source = module.workload_of(record.workload.mod)
    _log.info("a committed record of another function is used, near by anchor-block")
    plain = Record(
        record_id="committed",
        module=module.to_json(source.module),
        trace=renamed(targets.plain(record.trace.as_json()), "main"),
        run_secs=tuple(float(secs) for secs in record.run_secs),
        tvm_version=module.tvm_version(),
    )
    return applied.apply_anchored(plain, module.workload_of(mod), target)
