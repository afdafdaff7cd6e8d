"""Traces as canonical JSON text: their hash, their replay, their Python.

A trace comes from a client or from a row; checks.trace has judged it before it is applied here. Nothing is
measured and no design space is known in this module.
"""

import hashlib
import json
from typing import Any

from tuner.errors import TraceError
from tuner.plain_json import compact, plain
from tuner.tvm_light import load_intrinsics, load_tvm

#: TVM's own FFI reports a failed check as one of these.
TVM_ERRORS = (ValueError, TypeError, AttributeError, KeyError, IndexError, RuntimeError)


def canonical_text(trace: Any) -> str:
    """The compact JSON text (sorted keys) of a `tvm.s_tir.Trace`."""
    return compact(plain(trace.as_json()))


def trace_hash(text: str) -> str:
    """SHA-256 (hex) of a trace's canonical text."""
    return hashlib.sha256(text.encode()).hexdigest()


def apply_trace(trace: Any, mod: Any, *, rand_state: int = 1) -> Any:
    """A `tvm.s_tir.Schedule` of `mod` with the trace (JSON text or object) replayed on it.

    Decisions are kept; those that the trace lacks are sampled from `rand_state`.

    Raises TraceError naming the cause where an instruction does not fit.
    """
    return apply_to(trace, untouched_schedule(mod, rand_state=rand_state))


def untouched_schedule(mod: Any, *, rand_state: int = 1) -> Any:
    """A `tvm.s_tir.Schedule`; to copy one takes a fifth of the time."""
    return load_tvm().s_tir.Schedule(mod, seed=rand_state, debug_mask="none", error_render_level="fast")


def apply_to(trace: Any, schedule: Any) -> Any:
    """The schedule, with the trace replayed on it. Raises as `apply_trace` does."""
    obj = _parsed(trace)
    try:
        load_intrinsics([attrs[0] for kind, _, attrs, _ in obj[0] if kind == "Tensorize"])
        load_tvm().s_tir.Trace.apply_json_to_schedule(obj, schedule)
    except TVM_ERRORS as error:
        raise TraceError(f"the trace does not apply: {brief(error)}") from error
    return schedule


def trace_python(trace: Any, mod: Any) -> tuple[str, str]:
    """(the trace as Python, the scheduled module as TVMScript)."""
    schedule = apply_trace(trace, mod)
    return "\n".join(str(line) for line in schedule.trace.as_python()), str(schedule.mod.script())


def brief(error: BaseException, *, max_chars: int = 600) -> str:
    """The last lines of a TVM error: what stands above them is its C++ stack."""
    text = str(error).strip() or type(error).__name__
    return text if len(text) <= max_chars else "..." + text[-max_chars:]


def _parsed(trace: Any) -> Any:
    if not isinstance(trace, str):
        return trace
    try:
        return json.loads(trace)
    except ValueError as error:
        raise TraceError(f"the trace is not JSON: {error}") from error
