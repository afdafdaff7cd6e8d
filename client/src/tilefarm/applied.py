"""A record applied to the function that a compile asked about, under every guard there is.

The record's module must equal the asked workload, its trace must hold only what tuning needs and apply to
the record's own module, now or before on this host; then the asked function's attributes are put back. It
asks no service.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tilefarm import anchor, built_trace, module, trace
from tilefarm.answers import Record
from tilefarm.errors import ModuleError
from tilefarm.proven import Proven
from tilefarm.trace_check import check_trace

#: Loading a module is most of what a hit costs; a compile asks for the same one two or three times.
_KEPT_MODULES = 256


@dataclass(slots=True, kw_only=True)
class Applied:
    """A trace that was applied to this module once, and that therefore applies again."""

    #: IRModule equal to the asked one, with block names that the trace knows.
    module: Any
    #: The PrimFunc of `module`.
    func: Any
    #: A tvm.s_tir.Trace.
    trace: Any
    record: Record
    #: Where it was made already: the schedule that the trace makes of `module`.
    made: Any = None

    def schedule(self) -> Any:
        """A tvm.s_tir.Schedule; whoever asks may change it, and is given another one the next time."""
        if self.made is None:
            schedule = _untouched(self.module)
            self.trace.apply_to_schedule(schedule, remove_postproc=False)
            return schedule
        schedule, self.made = self.made, None
        return schedule

    def tuning_record(self, target: Any) -> Any:
        """As MetaSchedule's consumers want it."""
        from tvm.s_tir.meta_schedule.arg_info import ArgInfo
        from tvm.s_tir.meta_schedule.database import TuningRecord, Workload

        return TuningRecord(
            trace=self.trace,
            workload=Workload(self.module),
            run_secs=list(self.record.run_secs),
            target=target,
            args_info=ArgInfo.from_prim_func(self.func),
        )


@lru_cache(maxsize=_KEPT_MODULES)
def _loaded(text: str, *, is_checked: bool) -> Any:
    return module.from_json(text, is_checked=is_checked)


def _stored(record: Record, *, is_checked: bool) -> Any:
    """The record's module. Nobody changes it: what is scheduled is a function of its own."""
    return _loaded(record.module, is_checked=is_checked)


def apply(record: Record, workload: module.Workload, proven: Proven | None = None) -> Applied:
    """ModuleError or TraceError where the record does not fit; TVM's own errors where the trace does not.

    What is `proven` is not tried again, and what is tried and holds is noted there.
    """
    known = proven is not None and proven.holds(record.content_sha256)
    stored = _stored(record, is_checked=record.is_checked or known)
    if not module.equal(stored, workload.module):
        raise ModuleError("the record's module is another one with the same hash")
    # What was equal in canonical form is the asked function once it has the asked attributes.
    func = module.restored(stored["main"], workload.asked)
    if proven is not None and known:
        return _again(record, func, workload.name, proven)
    check_trace(record.trace)
    return _applied(record, record.trace, func, workload.name, proven)


def apply_anchored(record: Record, workload: module.Workload, target: Any) -> Applied:
    """Of a record of another workload around the same anchor block; `target` is the tvm Target.

    ModuleError or TraceError where it does not fit; TVM's own errors where no schedule can be made of it.
    """
    check_trace(record.trace)
    stored = _stored(record, is_checked=record.is_checked)
    found = anchor.trace_for(workload.module, record.trace, of=stored, target=target)
    return _applied(record, found, workload.asked, workload.name)


def _again(record: Record, func: Any, name: str, proven: Proven) -> Applied:
    import tvm

    def build() -> Any:
        return built_trace.built(_named(record.trace, name))

    trace_of_it = proven.trace(record.content_sha256, name, build)
    return Applied(module=tvm.IRModule({name: func}), func=func, trace=trace_of_it, record=record)


def _applied(record: Record, steps: Any, func: Any, name: str, proven: Proven | None = None) -> Applied:
    import tvm

    base = tvm.IRModule({name: func})
    steps = _named(steps, name)
    schedule = None if proven is None else _built_and_applied(steps, base)
    if proven is not None and schedule is not None:
        proven.note(record.content_sha256)
    else:
        schedule = _untouched(base)
        tvm.s_tir.Trace.apply_json_to_schedule(steps, schedule)
    return Applied(module=base, func=func, trace=schedule.trace, made=schedule, record=record)


def _built_and_applied(steps: Any, base: Any) -> Any:
    """The schedule, where the trace that was built is exactly the one, and applies; else None."""
    built = built_trace.exact(steps)
    if built is None:
        return None
    schedule = _untouched(base)
    try:
        built.apply_to_schedule(schedule, remove_postproc=False)
    except Exception:  # noqa: BLE001 - TVM raises anything; what it says of its own reading counts
        return None
    return schedule


def _named(steps: Any, name: str) -> Any:
    return steps if name == "main" else trace.renamed(steps, name)


def _untouched(base: Any) -> Any:
    import tvm

    return tvm.s_tir.Schedule(base, debug_mask="none", error_render_level="none")
