"""The tuning tasks of a model: which PrimFuncs of a Relax module its compile will ask a database for.

A model's kernels exist only after passes have legalised and fused its operators, and a record is found only
where exactly the same passes ran. So each pipeline here repeats what one way of compiling does before it
asks. Client and service extract by the same code; tests keep both copies equal, statement by statement.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

#: What a database is asked by: `compile_relax`; the `static_shape_tuning` pipeline, and the same with
#: cpu_weight_prepack; an apply pass on the module as it stands.
PIPELINES = ("compile_relax", "static_shape_tuning", "prepack", "as_is")
#: Their first argument is the called PrimFunc.
_CALLS_TIR = frozenset({"relax.call_tir", "relax.call_tir_inplace", "relax.call_tir_with_grad"})
#: Their first argument is a function that lives outside the module.
_CALLS_EXTERNAL = frozenset({"relax.call_dps_packed", "relax.call_pure_packed", "relax.call_inplace_packed"})
_SCHEDULED = "tirx.is_scheduled"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractedTask:
    """One workload of a model, as TVM's ExtractedTask."""

    #: Of the first function that is this workload, after the passes.
    name: str
    #: PrimFunc, attributes and all.
    func: Any
    #: How many calls of the model it stands for.
    weight: int
    #: A compile makes a view of it and never runs it: it is asked for, but not worth a trial.
    is_view: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NotTuned:
    """A part of a model that no task stands for, with a stable code."""

    name: str
    code: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Extraction:
    #: By name.
    tasks: tuple[ExtractedTask, ...]
    not_tuned: tuple[NotTuned, ...]


def extract(mod: Any, target: Any, *, pipeline: str, canonical: Callable[[Any], Any]) -> Extraction:
    """The tasks of an IRModule for a `tvm.target.Target`, by one of PIPELINES.

    `canonical` gives a PrimFunc's IRModule in canonical form: functions that are equal in it are one task.
    Parameters that the compile binds must be bound already. What the passes raise is raised.
    """
    lowered = _lowered(mod, target, pipeline)
    prims = _prim_funcs(lowered)
    calls = calls_by_function(lowered, prims)
    tasks: dict[int, list[tuple[Any, ExtractedTask]]] = {}
    not_tuned = list(_external(lowered))
    for name in sorted(prims):
        reason = _reason_not_tuned(name, prims[name], calls[name])
        if reason is not None:
            not_tuned.append(reason)
        else:
            task = ExtractedTask(
                name=name, func=prims[name], weight=calls[name], is_view=is_view(prims[name])
            )
            _add(tasks, task, canonical)
    found = sorted(
        (task for same_hash in tasks.values() for _, task in same_hash), key=lambda task: task.name
    )
    return Extraction(tasks=tuple(found), not_tuned=tuple(not_tuned))


def _lowered(mod: Any, target: Any, pipeline: str) -> Any:
    """The module at the moment at which a compile asks its database."""
    import tvm

    if pipeline == "as_is":
        return mod
    passes = [*_PASSES[pipeline](target)]
    # Nobody's database may answer here: what it schedules would be no task any more.
    with target, tvm.transform.PassContext(opt_level=3):
        return tvm.transform.Sequential(passes)(mod)


def _compile_relax(target: Any) -> list[Any]:
    """As tvm.s_tir.meta_schedule.relax_integration.compile_relax before it applies its database."""
    from tvm.relax import pipeline

    try:
        dispatch = list(pipeline.library_dispatch_passes(target))
    except (ValueError, AttributeError):
        dispatch = []
    return [*dispatch, *_fused()]


def _static_shape_tuning(_target: Any) -> list[Any]:
    """As tvm.relax.pipeline.static_shape_tuning_pipeline before it tunes."""
    from tvm.relax import transform

    return [transform.DecomposeOpsForInference(), transform.CanonicalizeBindings(), *_fused()]


def _prepack(target: Any) -> list[Any]:
    from tvm.relax import transform

    return [*_static_shape_tuning(target), transform.AttachAttrLayoutFreeBuffers()]


def _fused() -> list[Any]:
    from tvm.relax import transform

    return [
        transform.LegalizeOps(),
        transform.AnnotateTIROpPattern(),
        transform.FoldConstant(),
        transform.FuseOps(),
        transform.FuseTIR(),
    ]


_PASSES: Mapping[str, Callable[[Any], list[Any]]] = {
    "compile_relax": _compile_relax,
    "static_shape_tuning": _static_shape_tuning,
    "prepack": _prepack,
}


def _prim_funcs(mod: Any) -> dict[str, Any]:
    import tvm

    return {
        str(variable.name_hint): func
        for variable, func in mod.functions_items()
        if isinstance(func, tvm.tirx.PrimFunc)
    }


def calls_by_function(mod: Any, prims: Collection[str]) -> dict[str, int]:
    """How often the Relax functions call each of the named PrimFuncs; 1 where there is no Relax function."""
    counts = dict.fromkeys(prims, 0 if any(True for _ in relax_functions(mod)) else 1)
    for call in _relax_calls(mod):
        name = _called(call)
        if name in counts:
            counts[name] += 1
    return counts


def _called(call: Any) -> str | None:
    import tvm

    callee = call.args[0] if _op_name(call) in _CALLS_TIR else call.op
    return str(callee.name_hint) if isinstance(callee, tvm.ir.GlobalVar) else None


def _external(mod: Any) -> Iterator[NotTuned]:
    """Each function outside the module that it calls, once."""
    from tvm.relax import ExternFunc

    counts: dict[str, int] = {}
    for call in _relax_calls(mod):
        callee = call.args[0] if _op_name(call) in _CALLS_EXTERNAL else call.op
        if isinstance(callee, ExternFunc):
            name = str(callee.global_symbol)
            counts[name] = counts.get(name, 0) + 1
    for name in sorted(counts):
        detail = f"{name} is a function outside the module, called {counts[name]} times"
        yield NotTuned(name=name, code="external_call", detail=detail)


def relax_functions(mod: Any) -> Iterator[Any]:
    from tvm.relax import Function

    return (func for _, func in mod.functions_items() if isinstance(func, Function))


def _relax_calls(mod: Any) -> list[Any]:
    import tvm
    from tvm.relax.analysis import post_order_visit

    found: list[Any] = []

    def visit(expr: Any) -> None:
        if isinstance(expr, tvm.ir.Call):
            found.append(expr)

    for func in relax_functions(mod):
        post_order_visit(func, visit)
    return found


def _op_name(call: Any) -> str | None:
    import tvm

    return str(call.op.name) if isinstance(call.op, tvm.ir.Op) else None


def _reason_not_tuned(name: str, func: Any, calls: int) -> NotTuned | None:
    if func.attrs and func.attrs.get(_SCHEDULED, False):
        return NotTuned(name=name, code="already_scheduled", detail=f"{name} is marked {_SCHEDULED}")
    if not calls:
        return NotTuned(name=name, code="not_called", detail=f"no Relax function calls {name}")
    return _shapeless(name, func)


def is_view(func: Any) -> bool:
    """As RewriteDataflowReshape decides it, later in the compile."""
    from tvm.relax.analysis import has_reshape_pattern

    return bool(has_reshape_pattern(func))


def _shapeless(name: str, func: Any) -> NotTuned | None:
    import tvm

    for param in func.params:
        if not isinstance(param.ty, tvm.tirx.buffer.BufferType):
            detail = f"parameter {param.name} of {name} is a {param.ty}, not a buffer"
            return NotTuned(name=name, code="unsupported_dtype", detail=detail)
        if not all(isinstance(extent, int | tvm.tirx.IntImm) for extent in param.ty.shape):
            detail = f"parameter {param.name} of {name} has a symbolic shape; tune a concrete one"
            return NotTuned(name=name, code="symbolic_shape", detail=detail)
    return None


def _add(
    tasks: dict[int, list[tuple[Any, ExtractedTask]]], task: ExtractedTask, canonical: Callable[[Any], Any]
) -> None:
    import tvm_ffi

    module = canonical(task.func)
    same_hash = tasks.setdefault(int(tvm_ffi.structural_hash(module)), [])
    for index, (other, first) in enumerate(same_hash):
        if tvm_ffi.structural_equal(other, module):
            same_hash[index] = (other, replace(first, weight=first.weight + task.weight))
            return
    same_hash.append((module, task))
