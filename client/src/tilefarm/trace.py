"""Is a trace safe to apply? Checked in pure Python before TVM sees it.

TVM applies what a trace says: a decision out of range writes past an array, and an annotation may carry code
into the library that is compiled. Only instructions, keys and scopes that tuning needs pass. The list follows
the schedule rules and postprocs of TVM MetaSchedule (src/s_tir/meta_schedule). It applies nothing itself.
"""

import json
import re
from typing import Any

from tilefarm.errors import TraceError

MAX_INSTRUCTIONS = 2000
MAX_BYTES = 256 << 10
MAX_STRING = 256
MAX_UNROLL_STEP = 1024
KINDS = frozenset(
    {
        "GetSBlock", "GetLoops", "GetChildBlocks", "GetProducers", "GetConsumers", "SamplePerfectTile",
        "SampleCategorical", "SampleComputeLocation", "Split", "Fuse", "Reorder", "Bind", "Parallel",
        "Vectorize", "Unroll", "CacheRead", "CacheWrite", "ReIndex", "ComputeAt", "ReverseComputeAt",
        "ComputeInline", "ReverseComputeInline", "DecomposeReduction", "RFactor", "Blockize", "Tensorize",
        "TransformLayout", "TransformBlockLayout", "PadEinsum", "StorageAlign", "SetScope", "Annotate",
        "Unannotate", "EnterPostproc",
    }
)  # fmt: skip
_DECIDED = frozenset({"SamplePerfectTile", "SampleCategorical", "SampleComputeLocation"})
_KEYS = re.compile(
    r"meta_schedule\.[a-z0-9_]{1,64}|pragma_auto_unroll_max_step|pragma_unroll_explicit|warp_execution"
    r"|software_pipeline_(stage|order|async_stages)"
)
_SCOPES = re.compile(r"|global|shared|shared\.dyn|local|warp|wmma\.[a-z_]{1,16}|m16n8k8\.[a-zA-Z]{1,16}")
_INTRINSIC = re.compile(r"[A-Za-z0-9_.]{1,128}")
#: Where an instruction's attributes name a storage scope.
_SCOPE_ATTRS = {"CacheRead": 1, "CacheWrite": 1, "SetScope": 2}


def check(trace: Any) -> None:
    """TraceError where the trace holds anything but what tuning needs."""
    instructions, decisions = _parts(trace)
    for index, instruction in enumerate(instructions):
        _check_instruction(instruction, index)
    decided: set[int] = set()
    for decision in decisions:
        if not isinstance(decision, list) or len(decision) != 2 or not _is_int(decision[0]):
            raise TraceError("a decision is no pair of instruction and value")
        index, value = decision
        if not 0 <= index < len(instructions) or index in decided:
            raise TraceError(f"decision for instruction {index}, which is not there or decided already")
        decided.add(index)
        _check_decision(instructions[index], value, index)


def renamed(trace: Any, function_name: str) -> Any:
    """The same trace for a function that is not called `main` in its module."""
    instructions, decisions = trace
    return [
        [
            [kind, inputs, [attrs[0], function_name] if kind == "GetSBlock" else attrs, outputs]
            for kind, inputs, attrs, outputs in instructions
        ],
        decisions,
    ]


def _parts(trace: Any) -> tuple[list[Any], list[Any]]:
    if not isinstance(trace, list) or len(trace) != 2 or not all(isinstance(part, list) for part in trace):
        raise TraceError("a trace is a list of instructions and a list of decisions")
    try:
        size = len(json.dumps(trace, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise TraceError(f"the trace is not plain JSON: {error}") from error
    if size > MAX_BYTES or len(trace[0]) > MAX_INSTRUCTIONS:
        raise TraceError("the trace is too long")
    return trace[0], trace[1]


def _check_instruction(instruction: Any, index: int) -> None:
    if not isinstance(instruction, list) or len(instruction) != 4:
        raise TraceError(f"instruction {index} does not have four parts")
    kind, inputs, attrs, outputs = instruction
    if kind not in KINDS:
        raise TraceError(f"instruction {index} is of a kind that is not allowed: {str(kind)[:60]!r}")
    if not all(isinstance(part, list) for part in (inputs, attrs, outputs)):
        raise TraceError(f"instruction {index} ({kind}) has a part that is no list")
    _check_strings(instruction, index, depth=0)
    if kind in ("Annotate", "Unannotate"):
        _check_annotation(kind, inputs, attrs, index)
    elif kind in _SCOPE_ATTRS:
        _matching(attrs, _SCOPE_ATTRS[kind], _SCOPES, index, "storage scope")
    elif kind == "Tensorize":
        _matching(attrs, 0, _INTRINSIC, index, "tensor intrinsic")
    elif kind == "GetSBlock" and not (len(attrs) == 2 and all(isinstance(name, str) for name in attrs)):
        raise TraceError(f"instruction {index} (GetSBlock) does not name block and function")
    elif kind == "SampleCategorical" and not _is_categorical(attrs):
        raise TraceError(f"instruction {index} (SampleCategorical) has no candidates, or too large ones")


def _check_strings(value: Any, index: int, *, depth: int) -> None:
    if depth > 8:
        raise TraceError(f"instruction {index} is nested too deep")
    if isinstance(value, str) and len(value) > MAX_STRING:
        raise TraceError(f"instruction {index} holds a string of {len(value)} characters")
    if isinstance(value, dict):
        raise TraceError(f"instruction {index} holds an object")
    if isinstance(value, list):
        for item in value:
            _check_strings(item, index, depth=depth + 1)


def _check_annotation(kind: str, inputs: list[Any], attrs: list[Any], index: int) -> None:
    _matching(attrs, 0, _KEYS, index, "annotation key")
    if kind == "Annotate" and attrs[0] == "pragma_auto_unroll_max_step":
        step = inputs[1] if len(inputs) == 2 else None
        # A name is a sampled value, whose candidates are bounded by _is_categorical.
        if not isinstance(step, str | int) or (isinstance(step, int) and not 0 <= step <= MAX_UNROLL_STEP):
            raise TraceError(f"instruction {index} unrolls without a bound")


def _is_categorical(attrs: list[Any]) -> bool:
    if len(attrs) != 2 or not all(isinstance(part, list) for part in attrs) or not attrs[0]:
        return False
    candidates, probabilities = attrs
    return len(candidates) == len(probabilities) and all(
        _is_int(candidate) and abs(candidate) <= MAX_UNROLL_STEP * 64 for candidate in candidates
    )


def _check_decision(instruction: list[Any], value: Any, index: int) -> None:
    kind, _, attrs, outputs = instruction
    if kind not in _DECIDED:
        raise TraceError(f"instruction {index} ({kind}) takes no decision")
    if kind == "SamplePerfectTile":
        fine = (
            isinstance(value, list)
            and len(value) == len(outputs)
            and all(_is_int(factor) and 1 <= factor <= 2**31 - 1 for factor in value)
        )
    elif kind == "SampleCategorical":
        fine = _is_int(value) and 0 <= value < len(attrs[0])
    else:  # -2: inlined, -1: root, else a loop's index
        fine = _is_int(value) and -2 <= value <= 64
    if not fine:
        raise TraceError(f"the decision of instruction {index} ({kind}) is out of range")


def _matching(attrs: list[Any], position: int, pattern: re.Pattern[str], index: int, what: str) -> None:
    value = attrs[position] if len(attrs) > position else None
    if not isinstance(value, str) or pattern.fullmatch(value) is None:
        raise TraceError(f"instruction {index}: {what} {str(value)[:60]!r} is not allowed")


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
