"""Is a trace safe to apply? Checked in pure Python before TVM sees it.

Replaying a trace writes decision indices into vectors unchecked and puts annotations into the library that is
compiled. This is the client's copy of what the service checks; tests keep both equal, function by function.
"""

import json
import re
from collections.abc import Callable
from typing import Any

from tilefarm.errors import TraceError
from tilefarm.index_map import check_index_map
from tilefarm.trace_allowed import (
    ANNOTATION_BOUNDS,
    ANNOTATIONS,
    BLOCK_MAKERS,
    INSTRUCTIONS,
    INTRINSIC,
    REMOVED_ONLY,
    SAMPLING,
    SCOPES,
    THREADS,
)

MAX_INSTRUCTIONS = 2_000
#: What ordinary traces make stays far below.
MAX_LOOPS = 1_000
MAX_BLOCKS = 100
MAX_TEXT_CHARS = 262_144
_MAX_INTEGER = 2**31 - 1
_MAX_PARTS = 16
_MAX_CANDIDATES = 256
_VARIABLE = re.compile(r"[blv][0-9]{1,6}")
_NAME = re.compile(r"[\w.$:@+\-\[\]/ ]{1,256}", re.ASCII)
_TILING = re.compile(r"[SR]{1,32}")
_NESTING = 4


def check_trace(obj: Any) -> None:
    """Raises TraceError where `obj`, the parsed `[instructions, decisions]` of a Trace, is not allowed."""
    if not isinstance(obj, list) or len(obj) != 2 or not all(isinstance(part, list) for part in obj):
        raise TraceError("a trace is a list of instructions and a list of decisions")
    instructions, decisions = obj
    if len(instructions) > MAX_INSTRUCTIONS or len(decisions) > len(instructions):
        raise TraceError(f"a trace has at most {MAX_INSTRUCTIONS} instructions and a decision for each")
    _check_size(obj)
    #: Upper bound of each sampled variable, None for blocks and loops.
    variables: dict[str, int | None] = {}
    for index, instruction in enumerate(instructions):
        try:
            _check_instruction(instruction, variables)
        except TraceError as error:
            raise TraceError(error.detail, instruction=index) from None
    _check_growth(instructions)
    _check_decisions(decisions, instructions)


def _check_size(obj: Any) -> None:
    try:
        length = len(json.dumps(obj, allow_nan=False))
    except (ValueError, TypeError, RecursionError):
        raise TraceError("the trace is not plain JSON") from None
    if length > MAX_TEXT_CHARS:
        raise TraceError(f"the trace is longer than {MAX_TEXT_CHARS} characters")


def _check_growth(instructions: list[Any]) -> None:
    """What makes loops or blocks takes the longer the more there are: with thousands a compile hangs."""
    loops = sum(len(outputs) for kind, _, _, outputs in instructions if kind == "Split")
    blocks = sum(kind in BLOCK_MAKERS for kind, *_ in instructions)
    if loops > MAX_LOOPS or blocks > MAX_BLOCKS:
        raise TraceError(
            f"a trace splits into at most {MAX_LOOPS} loops and makes at most {MAX_BLOCKS} blocks"
        )


def _check_instruction(instruction: Any, variables: dict[str, int | None]) -> None:
    if not isinstance(instruction, list) or len(instruction) != 4:
        raise TraceError("an instruction is [kind, inputs, attributes, outputs]")
    kind, inputs, attributes, outputs = instruction
    if not isinstance(kind, str) or kind not in INSTRUCTIONS:
        raise TraceError(f"the instruction {_show(kind)} is not allowed")
    if not all(isinstance(part, list) for part in (inputs, attributes, outputs)):
        raise TraceError(f"{kind} has inputs, attributes and outputs as lists")
    wanted = INSTRUCTIONS[kind]
    if len(attributes) != len(wanted):
        raise TraceError(f"{kind} takes {len(wanted)} attributes")
    for value, sort in zip(attributes, wanted, strict=True):
        if not _attribute_fits(value, sort):
            raise TraceError(f"{kind} does not take the attribute {_show(value)}")
    _check_sampling(kind, attributes)
    _check_inputs(kind, inputs, attributes, variables)
    bound = max(attributes[0]) if kind == "SampleCategorical" else None
    for name in outputs:
        if not isinstance(name, str) or _VARIABLE.fullmatch(name) is None or name in variables:
            raise TraceError(f"{kind} cannot define {_show(name)}")
        variables[name] = bound


def _check_sampling(kind: str, attributes: list[Any]) -> None:
    if kind == "SampleCategorical" and len(attributes[0]) != len(attributes[1]):
        raise TraceError("SampleCategorical takes as many probabilities as candidates")
    if kind == "SamplePerfectTile" and (
        isinstance(attributes[0], bool) or not 1 <= attributes[0] <= _MAX_PARTS
    ):
        raise TraceError(f"SamplePerfectTile makes 1 to {_MAX_PARTS} parts")
    if kind == "SamplePerfectTile" and attributes[1] == 0:  # TVM would draw for ever
        raise TraceError("SamplePerfectTile takes an innermost factor of 1 or more, or -1 for any")


def _check_inputs(
    kind: str, inputs: list[Any], attributes: list[Any], variables: dict[str, int | None]
) -> None:
    plain = inputs
    if kind == "Annotate":
        if len(inputs) != 2 or not _annotation_fits(inputs[1], ANNOTATIONS[attributes[0]], variables):
            raise TraceError(f"the value of annotation {attributes[0]} is not allowed")
        plain = inputs[:1]
    elif kind == "TransformLayout":
        if len(inputs) != 2 or not isinstance(inputs[1], str):
            raise TraceError("TransformLayout takes a block and an index map")
        _require_index_map(inputs[1])
        plain = inputs[:1]
    for value in plain:
        if not _input_fits(value, variables, nesting=0):
            raise TraceError(f"{kind} does not take the input {_show(value)}")


def _input_fits(value: Any, variables: dict[str, int | None], *, nesting: int) -> bool:
    if isinstance(value, list):
        return nesting < _NESTING and all(_input_fits(v, variables, nesting=nesting + 1) for v in value)
    if isinstance(value, str):
        return value in variables or value == "None"
    return value is None or _is_integer(value, -_MAX_INTEGER, _MAX_INTEGER)


def _attribute_fits(value: Any, sort: str) -> bool:
    if sort == "none":
        return value is None
    if sort in _TEXTS:
        return isinstance(value, str) and _TEXTS[sort](value)
    if sort in _LISTS:
        return isinstance(value, list) and _LISTS[sort](value)
    low, high = _RANGES[sort]
    return isinstance(value, bool) or _is_integer(value, low, high)


def _annotation_fits(value: Any, sort: str, variables: dict[str, int | None]) -> bool:
    if sort == "stages":
        return (
            isinstance(value, list) and len(value) <= 64 and all(_is_integer(stage, 0, 64) for stage in value)
        )
    if sort in ("tiling", "intrinsic"):
        if (
            not isinstance(value, str)
            or len(value) < 2
            or not value.startswith('"')
            or not value.endswith('"')
        ):
            return False
        pattern = _TILING if sort == "tiling" else INTRINSIC
        return pattern.fullmatch(value[1:-1]) is not None
    bound = ANNOTATION_BOUNDS[sort]
    if isinstance(value, str):
        most = variables.get(value)
        return most is not None and most <= bound
    return isinstance(value, bool) or _is_integer(value, -1, bound)


def _check_decisions(decisions: list[Any], instructions: list[Any]) -> None:
    seen: set[int] = set()
    for decision in decisions:
        if (
            not isinstance(decision, list)
            or len(decision) != 2
            or not _is_integer(decision[0], 0, _MAX_INTEGER)
        ):
            raise TraceError("a decision is [index of an instruction, decision]")
        index, value = decision
        if index >= len(instructions) or index in seen:
            raise TraceError(f"a decision names the instruction {index}, which is not there or decided twice")
        seen.add(index)
        kind, _, attributes, _ = instructions[index]
        if kind not in SAMPLING or not _decision_fits(kind, attributes, value):
            raise TraceError(f"the decision {_show(value)} does not fit {kind}", instruction=index)


def _decision_fits(kind: str, attributes: list[Any], value: Any) -> bool:
    if kind == "SampleCategorical":
        return _is_integer(value, 0, len(attributes[0]) - 1)
    if kind == "SampleComputeLocation":
        return _is_integer(value, -2, 64)
    parts, max_innermost = attributes
    return (
        isinstance(value, list)
        and len(value) == parts
        and all(_is_integer(factor, 1, _MAX_INTEGER) for factor in value)
        and (max_innermost <= 0 or value[-1] <= max_innermost)
    )


def _require_index_map(text: str) -> bool:
    fault = check_index_map(text)
    if fault is not None:
        raise TraceError(fault)
    return True


def _is_integer(value: Any, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _are_candidates(value: list[Any]) -> bool:
    return 1 <= len(value) <= _MAX_CANDIDATES and all(_is_integer(item, -1, _MAX_INTEGER) for item in value)


def _are_probabilities(value: list[Any]) -> bool:
    return 1 <= len(value) <= _MAX_CANDIDATES and all(
        isinstance(item, (int, float)) and not isinstance(item, bool) and 0 <= item <= 1 for item in value
    )


def _are_paddings(value: list[Any]) -> bool:
    return len(value) <= _MAX_PARTS and all(_is_integer(item, 1, 4096) for item in value)


_TEXTS: dict[str, Callable[[str], bool]] = {
    "index_map": _require_index_map,
    "intrinsic": lambda text: INTRINSIC.fullmatch(text) is not None,
    "name": lambda text: _NAME.fullmatch(text) is not None,
    "scope": SCOPES.__contains__,
    "thread": THREADS.__contains__,
    "key": ANNOTATIONS.__contains__,
    "removed": lambda text: text in ANNOTATIONS or text in REMOVED_ONLY,
}
_LISTS = {"candidates": _are_candidates, "probabilities": _are_probabilities, "paddings": _are_paddings}
_RANGES = {
    "flag": (0, 1),
    "small": (-1, 4096),
    "place": (-2, 4096),
    "axis": (-16, 16),
    "alignment": (0, 4096),
}


def _show(value: Any) -> str:
    """A value for a message, bounded: the sender chose it."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
