"""A caller's IRModule taken apart into workloads: one PrimFunc each, in canonical form, ready to be tuned.

Canonical form: GlobalVar `main`, `global_symbol` `main`, `tirx.noalias` true, `op_pattern` and `is_scheduled`
dropped, `layout_free_buffers` kept, no source spans (they would carry paths of the caller's machine). What is
written on the functions' names, attributes and block names never decides which workload it is. Whether the
graph is safe to load at all was decided before (checks.graph); whether TVM survives it, by the sandbox.
"""

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

from tuner import shared_nodes
from tuner.errors import WorkloadError
from tuner.trace import TVM_ERRORS, brief
from tuner.tvm_light import load_tvm

_SCHEDULED = "tirx.is_scheduled"
_NOALIAS = "tirx.noalias"
#: What a worker can allocate and fill.
_DTYPES = frozenset(
    {"bool", "float16", "float32", "float64", "bfloat16", "float8_e4m3fn", "float8_e5m2"}
    | {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
)
_SERIAL = 0
#: A trace names blocks by at most 256 characters (checks.trace), and primitives append to their names.
_MAX_BLOCK_NAME_CHARS = 200
#: At its end, a graph's JSON names the version that wrote it.
_METADATA_CHARS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One tunable function of a caller's module."""

    #: The function's name in the caller's module.
    name: str
    #: Structural hash, 16 lower-case hex digits: an index, to be confirmed by `equal`.
    shash: str
    #: Canonical module as JSON text.
    module: str
    flops: float
    #: (shape, dtype) by parameter.
    args: tuple[tuple[tuple[int, ...], str], ...]
    #: Names of the parameters, in order, as submitted.
    parameters: tuple[str, ...]
    #: False where the caller did not promise it: then the caller's own compile keeps slower code.
    had_noalias: bool
    #: Structural hash of the anchor block alone, 16 lower-case hex digits; None where there is none.
    anchor_hash: str | None = None


def load_module(text: str) -> Any:
    """The IRModule of TVM's JSON, free of source spans; WorkloadError not_an_ir_module otherwise."""
    tvm = load_tvm()
    try:
        mod = load_text(strip_spans(text))
    except TVM_ERRORS as error:
        detail = f"TVM cannot load the module: {brief(error)}"
        raise WorkloadError(detail, code="not_an_ir_module") from error
    if not isinstance(mod, tvm.IRModule):
        raise WorkloadError(f"the JSON holds a {type(mod).__name__}", code="not_an_ir_module")
    return mod


def load_canonical(text: str) -> Any:
    """As `load_module`, of what `save_module` wrote: it has no source spans."""
    try:
        return load_text(text)
    except TVM_ERRORS as error:
        detail = f"TVM cannot load the module: {brief(error)}"
        raise WorkloadError(detail, code="not_an_ir_module") from error


def save_module(mod: Any) -> str:
    """Compact JSON text of a module, free of source spans."""
    tvm = load_tvm()
    text = str(tvm.ir.save_json(mod))
    graph = json.loads(text)
    if shared_nodes.knows(graph):
        return _compact(shared_nodes.shared(graph))
    # Loading and saving once more drops the nodes that nothing names any longer.
    return _compact(json.loads(tvm.ir.save_json(load_text(strip_spans(text)))))


def _compact(graph: Any) -> str:
    return json.dumps(graph, separators=(",", ":"))


def load_text(text: str) -> Any:
    """The object of TVM's JSON; raises what TVM raises.

    TVM's load_json rewrites what older versions wrote first, which takes ten times as long as the loading:
    what this version wrote goes without.
    """
    tvm = load_tvm()
    if tvm.__version__ not in text[-_METADATA_CHARS:]:
        return tvm.ir.load_json(text)
    from tvm_ffi.serialization import from_json_graph_str

    return from_json_graph_str(text)


def strip_spans(text: str) -> str:
    """Every `span` field of TVM's JSON graph made to name the None node."""
    obj = json.loads(text)
    nodes = obj["nodes"]
    nothing = next((index for index, node in enumerate(nodes) if node.get("type") == "None"), None)
    if nothing is None:
        nothing = len(nodes)
        nodes.append({"type": "None"})
    for node in nodes:
        data = node.get("data")
        if isinstance(data, dict) and "span" in data:
            data["span"] = nothing
    return json.dumps(obj)


def prim_functions(mod: Any) -> dict[str, Any]:
    """The PrimFuncs of a module by name, sorted; WorkloadError no_prim_func where there is none."""
    tvm = load_tvm()
    named = {str(var.name_hint): func for var, func in mod.functions_items()}
    found = {name: named[name] for name in sorted(named) if isinstance(named[name], tvm.tirx.PrimFunc)}
    if not found:
        others = (
            ", ".join(f"{name} ({type(named[name]).__name__})" for name in sorted(named)[:8]) or "nothing"
        )
        raise WorkloadError(f"the module holds no TIR PrimFunc, but {others}", code="no_prim_func")
    return found


def workload_of(name: str, func: Any) -> Workload:
    """A function checked and put into canonical form; WorkloadError names it and the cause."""
    if _attr(func, _SCHEDULED):
        detail = f"{name} is marked {_SCHEDULED}"
        raise WorkloadError(detail, code="already_scheduled", function=name)
    args = _args(name, func)
    mod = canonical_module(func)
    _check_form(name, mod)
    text = save_module(mod)
    _check_unscheduled(name, json.loads(text)["nodes"])
    _check_blocks(name, func)
    return Workload(
        name=name,
        shash=structural_hash(mod),
        module=text,
        flops=_flops(name, mod),
        args=args,
        parameters=tuple(str(param.name) for param in func.params),
        had_noalias=bool(_attr(func, _NOALIAS)),
        anchor_hash=anchor_hash(mod),
    )


def canonical_module(func: Any) -> Any:
    """An IRModule holding the function alone, in canonical form."""
    tvm = load_tvm()
    for dropped in ("op_pattern", _SCHEDULED):
        if _attr(func, dropped) is not None:
            func = func.without_attr(dropped)
    func = func.with_attr("global_symbol", "main").with_attr(_NOALIAS, True)
    return tvm.IRModule({"main": func})


def structural_hash(mod: Any) -> str:
    """16 lower-case hex digits of TVM's 64-bit structural hash."""
    import tvm_ffi

    return f"{tvm_ffi.structural_hash(mod) % (1 << 64):016x}"


def anchor_hash(mod: Any) -> str | None:
    """As TVM's module equality `anchor-block`: of the costliest block that reduces alone."""
    import tvm_ffi
    from tvm.s_tir.analysis import find_anchor_sblock

    block = find_anchor_sblock(mod)
    if block is None:
        return None
    return f"{tvm_ffi.structural_hash(block, skip_tensor_content=True) % (1 << 64):016x}"


def structurally_equal(left: Any, right: Any) -> bool:
    import tvm_ffi

    return bool(tvm_ffi.structural_equal(left, right))


def _attr(func: Any, name: str) -> Any:
    return func.attrs[name] if func.attrs is not None and name in func.attrs else None


def _args(name: str, func: Any) -> tuple[tuple[tuple[int, ...], str], ...]:
    tvm = load_tvm()
    args = []
    for param in func.params:
        if not isinstance(param.ty, tvm.tirx.buffer.BufferType):
            detail = f"parameter {param.name} of {name} is a {param.ty}, not a buffer"
            raise WorkloadError(detail, code="unsupported_dtype", function=name)
        shape, dtype = param.ty.shape, str(param.ty.dtype)
        _check_shape(name, str(param.name), shape)
        if dtype not in _DTYPES:
            detail = f"parameter {param.name} of {name} has dtype {dtype}, which no worker can fill"
            raise WorkloadError(detail, code="unsupported_dtype", function=name)
        _check_compact(name, str(param.name), param.ty)
        args.append((tuple(int(extent) for extent in shape), dtype))
    return tuple(args)


def _check_shape(name: str, param: str, shape: Any) -> None:
    tvm = load_tvm()
    for extent in shape:
        if not isinstance(extent, int | tvm.tirx.IntImm):
            detail = f"parameter {param} of {name} has the symbolic extent {extent}; tune a concrete shape"
            raise WorkloadError(detail, code="symbolic_shape", function=name)
        if int(extent) < 1:
            detail = f"parameter {param} of {name} has the extent {int(extent)}"
            raise WorkloadError(detail, code="ill_formed", function=name)


def _check_compact(name: str, param: str, buffer: Any) -> None:
    """What a worker allocates has neither offset nor gaps; symbolic strides are bound to that."""
    tvm = load_tvm()
    stride, fits = 1, getattr(buffer.elem_offset, "value", 0) == 0
    for extent, given in zip(reversed(buffer.shape), reversed(buffer.strides or buffer.shape), strict=True):
        if buffer.strides and int(extent) > 1 and isinstance(given, tvm.tirx.IntImm):
            fits = fits and int(given) == stride
        stride *= int(extent)
    if not fits:
        detail = (
            f"parameter {param} of {name} has strides or an offset of its own; tune it with a compact buffer"
        )
        raise WorkloadError(detail, code="unsupported_layout", function=name)


def _check_blocks(name: str, func: Any) -> None:
    """A trace finds each by its name. A sum over nothing is begun by a schedule, but not without one."""
    tvm = load_tvm()
    import tvm_ffi

    blocks: list[Any] = []
    tvm_ffi.structural_walk(func.body, (tvm.s_tir.SBlock, blocks.append))
    for block_name, count in Counter(str(block.name_hint) for block in blocks).items():
        if count > 1:
            detail = (
                f"{name} has {count} blocks with the name {block_name}: a trace would not know which it means"
            )
            raise WorkloadError(detail, code="bad_name", function=name)
        if not 0 < len(block_name) <= _MAX_BLOCK_NAME_CHARS:
            detail = (
                f"a block of {name} has a name of {len(block_name)} characters ({block_name[:40]!r}), "
                f"not of 1 to {_MAX_BLOCK_NAME_CHARS}"
            )
            raise WorkloadError(detail, code="bad_name", function=name)
    for block in blocks:
        if any(getattr(axis.dom.extent, "value", 1) == 0 for axis in block.iter_vars):
            detail = f"block {block.name_hint} of {name} has an axis of extent 0"
            raise WorkloadError(detail, code="ill_formed", function=name)


def _check_form(name: str, mod: Any) -> None:
    tvm = load_tvm()
    try:
        tvm.s_tir.analysis.verify_well_formed(mod, True)
    except TVM_ERRORS as error:
        detail = f"{name} is not well formed: {brief(error)}"
        raise WorkloadError(detail, code="ill_formed", function=name) from error


def _check_unscheduled(name: str, nodes: list[dict[str, Any]]) -> None:
    loops = [node["data"] for node in nodes if node["type"] == "tirx.For"]
    if any(loop["kind"] != _SERIAL for loop in loops):
        detail = f"{name} has parallel, vectorised, unrolled or thread-bound loops: it is scheduled already"
        raise WorkloadError(detail, code="already_scheduled", function=name)
    blocks = [node["data"] for node in nodes if node["type"] == "s_tir.SBlock"]
    if not any(nodes[block["iter_vars"]]["data"] for block in blocks):
        detail = f"{name} has no block to schedule: it is lowered already"
        raise WorkloadError(detail, code="already_scheduled", function=name)


def _flops(name: str, mod: Any) -> float:
    """TVM's estimate of operations, integer ones included."""
    tvm = load_tvm()
    try:
        tvm.s_tir.Schedule(mod, debug_mask="all")
        return float(tvm.s_tir.analysis.estimate_tir_flops(mod))
    except TVM_ERRORS as error:
        detail = f"TVM cannot schedule {name}: {brief(error)}"
        raise WorkloadError(detail, code="ill_formed", function=name) from error
