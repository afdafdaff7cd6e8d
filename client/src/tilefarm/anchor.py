"""TVM's module equality `anchor-block`: two functions around the same costliest block.

The record of one is a starting point for the other, never an exact record: what it becomes on the asked
function is checked like any trace that came from outside, and applied once before a compile sees it.
"""

from typing import Any, Literal

from tilefarm import module
from tilefarm.errors import ModuleError, TraceError
from tilefarm.space import trace_json
from tilefarm.trace_check import check_trace

#: TVM's names. Records of the service are compared structurally in any case: "ignore-tensor" is for what is
#: committed in this process.
ModuleEquality = Literal["structural", "ignore-tensor", "anchor-block"]


def block_of(mod: Any) -> Any:
    """The SBlock of an IRModule with one PrimFunc; None where nothing in it reduces."""
    from tvm.s_tir.analysis import find_anchor_sblock

    return find_anchor_sblock(mod)


def hash_of(mod: Any) -> str | None:
    """16 hexadecimal digits, as the service keeps them; None where there is no anchor block."""
    import tvm_ffi

    block = block_of(mod)
    if block is None:
        return None
    return format(int(tvm_ffi.structural_hash(block, skip_tensor_content=True)) % 2**64, "016x")


def equal(one: Any, other: Any) -> bool:
    """Whether both have an anchor block and these are equal."""
    import tvm_ffi

    blocks = block_of(one), block_of(other)
    if blocks[0] is None or blocks[1] is None:
        return False
    return bool(tvm_ffi.structural_equal(*blocks, skip_tensor_content=True))


def trace_for(mod: Any, trace: Any, *, of: Any, target: Any) -> Any:
    """What a record's checked trace, made for the module `of`, becomes on `mod`: a trace of its own, as JSON.

    Both are canonical modules, `target` is a tvm Target. ModuleError where their anchor blocks differ,
    TraceError where the schedule is not one that may be used; TVM's own errors where none can be made.
    """
    import tvm
    from tvm.s_tir.meta_schedule.trace_apply import schedule_using_anchor_trace

    if str(target.kind.name) != "llvm":
        raise TraceError("a schedule is taken over from another function on CPUs alone")
    if any(instruction[0] == "TransformLayout" for instruction in trace[0]):
        # What is a buffer inside one function may be the caller's own in the other, with the caller's layout.
        raise TraceError("a schedule that lays out buffers anew is not taken over")
    if not equal(of, mod) or block_of(of).name_hint != block_of(mod).name_hint:
        raise ModuleError("the near record is of another anchor block")
    source = tvm.s_tir.Schedule(of, debug_mask="none", error_render_level="none")
    tvm.s_tir.Trace.apply_json_to_schedule(trace, source)
    made = tvm.s_tir.Schedule(mod, debug_mask="all", error_render_level="none")
    schedule_using_anchor_trace(made, source.trace, target)
    found = trace_json(made)
    check_trace(found)
    again = tvm.s_tir.Schedule(mod, debug_mask="none", error_render_level="none")
    tvm.s_tir.Trace.apply_json_to_schedule(found, again)
    if not module.equal(again.mod, made.mod):
        raise TraceError("the schedule that was taken over does not replay")
    if not module.same_parameters(again.mod["main"], mod["main"]):
        raise TraceError("the schedule that was taken over changes the function's parameters")
    return found
