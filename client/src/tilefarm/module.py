"""Modules as the service keys them: canonical form, structural hash, JSON without source locations.

TVM is imported inside the functions, so that everything else of the client works without it.
"""

from dataclasses import dataclass
from typing import Any

from tilefarm import graph
from tilefarm.errors import ModuleError

#: Attributes that say nothing about the computation; the canonical form drops them.
_DROPPED_ATTRS = ("op_pattern", "tirx.is_scheduled")


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One PrimFunc as it is looked up."""

    #: Name of its GlobalVar in the asked module.
    name: str
    #: The PrimFunc as asked, attributes and all.
    asked: Any
    #: IRModule in canonical form.
    module: Any
    #: Structural hash of `module`: 16 hexadecimal digits, lower case.
    shash: str


def workload_of(mod: Any) -> Workload:
    """The workload of a module with one PrimFunc, or of a PrimFunc.

    Raises ModuleError where it has none, several, or one that is scheduled already.
    """
    name, func = only_function(mod)
    module = canonical(func)
    return Workload(name=name, asked=func, module=module, shash=structural_hash(module))


def only_function(mod: Any) -> tuple[str, Any]:
    """Name and PrimFunc of what may be a workload; the errors of `workload_of`."""
    functions = prim_funcs(mod)
    if len(functions) != 1:
        raise ModuleError(f"the module has {len(functions)} PrimFuncs, a workload has one")
    name, func = functions[0]
    if is_scheduled(func):
        raise ModuleError(f"{name} is scheduled already (tirx.is_scheduled)")
    return name, func


def prim_funcs(mod: Any) -> list[tuple[str, Any]]:
    """Names and PrimFuncs, by name as stock MetaSchedule orders its tasks."""
    import tvm

    if isinstance(mod, tvm.tirx.PrimFunc):
        return [(_global_symbol(mod) or "main", mod)]
    if not isinstance(mod, tvm.IRModule):
        raise ModuleError(f"expected an IRModule or a PrimFunc, not {type(mod).__name__}")
    found = [
        (str(variable.name_hint), func)
        for variable, func in mod.functions_items()
        if isinstance(func, tvm.tirx.PrimFunc)
    ]
    return sorted(found, key=lambda pair: pair[0])


def is_scheduled(func: Any) -> bool:
    return bool(func.attrs and func.attrs.get("tirx.is_scheduled", False))


def canonical(func: Any) -> Any:
    """IRModule {main: func} in canonical form."""
    import tvm

    for name in _DROPPED_ATTRS:
        if func.attrs and name in func.attrs:
            func = func.without_attr(name)
    func = func.with_attr("global_symbol", "main").with_attr("tirx.noalias", True)
    return tvm.IRModule({"main": func})


def restored(func: Any, asked: Any) -> Any:
    """A PrimFunc of the parameters and body of `func`, with exactly the attributes of the asked one."""
    import tvm

    if not func.attrs or not asked.attrs:
        return tvm.tirx.PrimFunc(func.params, func.body, func.ret_type, asked.attrs)
    found = func.with_attrs(asked.attrs)
    for name in func.attrs.keys():  # noqa: SIM118 - TVM's own mapping
        if name not in asked.attrs:
            found = found.without_attr(name)
    return found


def structural_hash(mod: Any) -> str:
    import tvm_ffi

    return format(int(tvm_ffi.structural_hash(mod)) % 2**64, "016x")


def equal(one: Any, other: Any, *, skip_tensor_content: bool = False) -> bool:
    import tvm_ffi

    return bool(tvm_ffi.structural_equal(one, other, skip_tensor_content=skip_tensor_content))


def to_json(mod: Any) -> str:
    """Node JSON without source locations."""
    import tvm

    text = to_raw_json(mod)
    if not graph.has_spans(text):
        return text
    return str(tvm.ir.save_json(_loaded(graph.without_spans(text))))


def to_raw_json(mod: Any) -> str:
    """Node JSON, source locations and all: `graph.without_spans` drops them without TVM."""
    import tvm

    return str(tvm.ir.save_json(mod))


def from_json(text: str, *, is_checked: bool = False) -> Any:
    """The module of a JSON text that this TVM version wrote, for somebody else. Raises ModuleError."""
    if not is_checked:
        graph.check(text)
    return _loaded(text)


def same_parameters(one: Any, other: Any) -> bool:
    """Whether two PrimFuncs are called with the same buffers: shapes, dtypes and layouts."""
    import tvm_ffi

    return len(one.params) == len(other.params) and all(
        tvm_ffi.structural_equal(mine.ty, theirs.ty, map_free_vars=True)
        for mine, theirs in zip(one.params, other.params, strict=True)
    )


def copy_of(mod: Any) -> Any:
    """An equal module that shares nothing with `mod`."""
    import tvm

    return _loaded(tvm.ir.save_json(mod))


def _loaded(text: str) -> Any:
    """As tvm.ir.load_json, which before rewrites what older versions wrote, for nine tenths of its time."""
    import tvm  # noqa: F401 - it registers the types of the graph
    from tvm_ffi.serialization import from_json_graph_str

    return from_json_graph_str(text)


def tvm_version() -> str:
    import tvm

    return str(tvm.__version__)


def _global_symbol(func: Any) -> str | None:
    symbol = func.attrs.get("global_symbol") if func.attrs else None
    return str(symbol) if symbol is not None else None
