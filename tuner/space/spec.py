"""A submitted design space as plain data: its canonical form and its hash. Pure Python.

A space travels as the JSON of its design-space traces and the names of its postprocs and mutators; an absent
name list means the target's defaults, an empty one means none (as stock TVM does for a plain callable).
Stock's space is None, a named one is {"rules": name}. Whether the traces fit the workload is for
tuner.space.generator.
"""

from collections.abc import Mapping
from typing import Any

from checks.space import NAMED
from checks.space import space_hash as space_hash  # noqa: PLC0414 - for those who read specs here
from tuner.errors import SpaceError

_FIELDS = frozenset({"traces", "postprocs", "mutators"})
POSTPROCS = frozenset(
    {"DisallowAsyncStridedMemCopy", "DisallowDynamicLoop", "RewriteCooperativeFetch", "RewriteLayout",
     "RewriteParallelVectorizeUnroll", "RewriteReductionBlock", "RewriteTensorize", "RewriteUnboundBlock",
     "VerifyGPUCode"}
)  # fmt: skip
MUTATORS = frozenset(
    {"MutateComputeLocation", "MutateParallel", "MutateThreadBinding", "MutateTileSize", "MutateUnroll"}
)


def canonical_space(space: Any, *, function: str = "main") -> dict[str, Any]:
    """The space with known fields only, its traces naming the workload's function `main`.

    `function` is the name under which the traces know the workload. Raises SpaceError.
    """
    if isinstance(space, Mapping) and space in NAMED.values():
        return dict(space)
    if not isinstance(space, Mapping) or not set(space) <= _FIELDS:
        raise SpaceError(f"a design space is an object with the fields {sorted(_FIELDS)}")
    traces = space.get("traces")
    if not isinstance(traces, list) or not traces:
        raise SpaceError("a design space has one trace at least")
    result: dict[str, Any] = {"traces": [_renamed(trace, function) for trace in traces]}
    if space.get("postprocs") is not None:
        result["postprocs"] = _postprocs(space["postprocs"])
    if space.get("mutators") is not None:
        result["mutators"] = _mutators(space["mutators"])
    return result


def _renamed(trace: Any, function: str) -> list[Any]:
    """GetSBlock names the block and its function; the workload's function is always `main`."""
    try:
        instructions, decisions = trace
        return [
            [
                [kind, inputs, [attrs[0], "main"], outputs]
                if kind == "GetSBlock" and attrs[1] == function
                else [kind, inputs, attrs, outputs]
                for kind, inputs, attrs, outputs in instructions
            ],
            decisions,
        ]
    except (TypeError, ValueError, IndexError) as error:
        raise SpaceError("a trace is [instructions, decisions] as TVM writes it") from error


def _postprocs(names: Any) -> list[str]:
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise SpaceError("postprocs is a list of names")
    for name in names:
        if name not in POSTPROCS:
            raise SpaceError(f"postproc {name!r} is not one of {sorted(POSTPROCS)}")
    return list(names)


def _mutators(weights: Any) -> dict[str, float]:
    if not isinstance(weights, Mapping):
        raise SpaceError("mutators is an object: name -> probability")
    for name, weight in weights.items():
        if name not in MUTATORS:
            raise SpaceError(f"mutator {name!r} is not one of {sorted(MUTATORS)}")
        if not isinstance(weight, int | float) or isinstance(weight, bool) or not 0 <= weight <= 1:
            raise SpaceError(f"the probability of mutator {name!r} is not between 0 and 1")
    return {str(name): float(weight) for name, weight in weights.items()}
