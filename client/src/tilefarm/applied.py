"""A record applied to the function that a compile asked about, under every guard there is.

The record's module must equal the asked workload, its trace must hold only what tuning needs and apply to
the record's own module; then the asked function's attributes are put back. It asks no service.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tilefarm import anchor, module, trace
from tilefarm.answers import Record
from tilefarm.errors import ModuleError
from tilefarm.trace_check import check_trace

#: Loading a module is most of what a hit costs; a compile asks for the same one two or three times.
_KEPT_MODULES = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """A schedule that was applied once, and that therefore applies again."""

    #: IRModule equal to the asked one, with block names that the schedule's trace knows.
    module: Any
    #: The PrimFunc of `module`.
    func: Any
    #: tvm.s_tir.Schedule of `module`.
    schedule: Any
    record: Record

    def tuning_record(self, target: Any) -> Any:
        """As MetaSchedule's consumers want it."""
        from tvm.s_tir.meta_schedule.arg_info import ArgInfo
        from tvm.s_tir.meta_schedule.database import TuningRecord, Workload

        return TuningRecord(
            trace=self.schedule.trace,
            workload=Workload(self.module),
            run_secs=list(self.record.run_secs),
            target=target,
            args_info=ArgInfo.from_prim_func(self.func),
        )


@lru_cache(maxsize=_KEPT_MODULES)
def _loaded(text: str, *, is_checked: bool) -> Any:
    return module.from_json(text, is_checked=is_checked)


def _stored(record: Record) -> Any:
    """The record's module. Nobody changes it: what is scheduled is a function of its own."""
    return _loaded(record.module, is_checked=record.is_checked)


def apply(record: Record, workload: module.Workload) -> Applied:
    """ModuleError or TraceError where the record does not fit; TVM's own errors where the trace does not."""
    stored = _stored(record)
    if not module.equal(stored, workload.module):
        raise ModuleError("the record's module is another one with the same hash")
    check_trace(record.trace)
    # What was equal in canonical form is the asked function once it has the asked attributes.
    func = module.restored(stored["main"], workload.asked)
    return _applied(record, record.trace, func, workload.name)


def apply_anchored(record: Record, workload: module.Workload, target: Any) -> Applied:
    """Of a record of another workload around the same anchor block; `target` is the tvm Target.

    ModuleError or TraceError where it does not fit; TVM's own errors where no schedule can be made of it.
    """
    check_trace(record.trace)
    found = anchor.trace_for(workload.module, record.trace, of=_stored(record), target=target)
    return _applied(record, found, workload.asked, workload.name)


def _applied(record: Record, steps: Any, func: Any, name: str) -> Applied:
    import tvm

    base = tvm.IRModule({name: func})
    if name != "main":
        steps = trace.renamed(steps, name)
    schedule = tvm.s_tir.Schedule(base, debug_mask="none", error_render_level="none")
    tvm.s_tir.Trace.apply_json_to_schedule(steps, schedule)
    return Applied(module=base, func=func, schedule=schedule, record=record)
