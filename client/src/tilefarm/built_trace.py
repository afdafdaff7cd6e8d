"""A TVM trace made of its JSON alone: what loading one by TVM does while it applies it to a schedule.

An apply pass applies the trace itself. Where it is known to apply (tilefarm.proven), applying it here as well
would only double what a hit costs a compile.
"""

from collections.abc import Collection
from functools import lru_cache
from typing import Any

from tilefarm import module
from tilefarm.errors import TraceError
from tilefarm.target import plain

#: They need what a process registers besides TVM itself, which says nothing about the next process.
_OF_A_PROCESS = frozenset({"Tensorize"})


def exact(steps: Any) -> Any:
    """The `tvm.s_tir.Trace` that TVM writes as exactly this checked JSON again; None where there is none."""
    if any(instruction[0] in _OF_A_PROCESS for instruction in steps[0]):
        return None
    try:
        trace = built(steps)
        return trace if plain(trace.as_json()) == steps else None
    except Exception:  # noqa: BLE001 - TVM raises anything; a trace that is not exact is loaded by TVM
        return None


def built(steps: Any) -> Any:
    """Of the JSON of a checked trace. TraceError where it names what it did not define."""
    from tvm.s_tir.schedule import Instruction, Trace

    variables: dict[str, Any] = {"None": None}
    instructions = []
    for kind, inputs, attributes, outputs in steps[0]:
        given = [_input(value, variables) for value in inputs]
        made = [_variable(name) for name in outputs]
        variables.update(zip(outputs, made, strict=True))
        fixed = [_index_map(value, variables) if _is_map(value) else value for value in attributes]
        instructions.append(Instruction(_kind(kind), given, fixed, made))
    return Trace(instructions, {instructions[index]: decision for index, decision in steps[1]})


@lru_cache(maxsize=4096)
def _variable(name: str) -> Any:
    """Traces may share them: a schedule that a trace is applied to makes its own."""
    from tvm.s_tir.schedule import LoopRV, SBlockRV
    from tvm.tirx import Var

    # TVM names blocks, loops and integers by their first letters.
    match name[0]:
        case "b":
            return SBlockRV()
        case "l":
            return LoopRV()
        case _:
            return Var(name, "int32")


@lru_cache(maxsize=256)
def _kind(name: str) -> Any:
    from tvm.s_tir.schedule.instruction import InstructionKind

    return InstructionKind.get(name)


def _input(value: Any, variables: dict[str, Any]) -> Any:
    if isinstance(value, str):
        if value in variables:
            return variables[value]
        if value[:1] == '"':
            return value[1:-1]
        if _is_map(value):
            return _index_map(value, variables)
        raise TraceError(f"{value!r} is not defined")
    return [_input(each, variables) for each in value] if isinstance(value, list) else value


def _is_map(value: Any) -> bool:
    return isinstance(value, str) and value[:1] == "{"


def _index_map(text: str, variables: Collection[str]) -> Any:
    """Of checked text: tilefarm.index_map says what stands in one. TraceError where it names a variable."""
    if any(f'"{name}"' in text for name in variables if name != "None"):
        raise TraceError("an index map that depends on a sample is left to TVM")
    return module.from_json(text, is_checked=True)
