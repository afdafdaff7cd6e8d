"""Is a module's JSON safe to give to TVM's loader? TVM 0.27 dies by SIGSEGV on some that are not.

A record comes from the service that one trusts, but a compile must also survive a proxy's garbage. The shape
of the graph is checked here: known node types, references that only point backwards, bounded depth and number
of paths. Whether the module means the asked one is decided later, by structural equality.
"""

import json
from collections.abc import Collection
from functools import lru_cache
from typing import Any

from tilefarm.errors import ModuleError

MAX_NODES = 200_000
#: TVM's loader recurses; 2,000 deep overruns an 8 MB stack.
MAX_DEPTH = 500
#: Shared nodes multiply paths: sixty nodes [i, i] keep TVM busy for ever.
MAX_PATHS = 20_000_000
_PLAIN = frozenset({"None", "bool", "int", "float", "ffi.String"})
_REFERENCES = frozenset({"ffi.Array", "ffi.Map", "ffi.List", "ffi.Dict"})
_PREFIXES = ("prim.", "tirx.", "s_tir.", "ir.", "relax.")
_REFUSED = frozenset({"ir.EnvFunc"})
_SPANS = frozenset({"ir.Span", "ir.SequentialSpan", "ir.SourceName"})
#: Node types that hold one string.
_NAMED = frozenset({"ir.Op", "ir.SourceName"})
_NO_FIELDS = _REFERENCES | _NAMED
_NESTED = (list, dict)
_NO_NUMBERS: frozenset[str] = frozenset()
#: Integer fields that are numbers, not references (TVM's reflection writes both as integers).
_NUMBERS = {
    "ir.FloatImm": {"value"},
    "ir.Span": {"line", "column", "end_line", "end_column"},
    "tirx.For": {"kind"},
    "tirx.IterVar": {"iter_type"},
    "tirx.BufferType": {"data_alignment", "offset_factor"},
    "relax.ShapeType": {"ndim"},
    "relax.TensorType": {"ndim"},
}


def check(text: str) -> None:
    """ModuleError where `text` is not a module's graph that TVM's loader survives."""
    try:
        graph = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ModuleError(f"the module is not JSON: {error}") from error
    nodes = graph.get("nodes") if isinstance(graph, dict) else None
    if not isinstance(nodes, list) or not 0 < len(nodes) <= MAX_NODES:
        raise ModuleError("the module's JSON has no list of nodes, or too long a one")
    root = graph.get("root_index")
    if not _is_int(root) or not 0 <= root < len(nodes):
        raise ModuleError("the module's JSON names no root")
    if _type(nodes[root]) != "ir.IRModule":
        raise ModuleError("the JSON holds no IRModule")
    _check_paths(nodes)


def is_safe(text: str) -> bool:
    """Whether `check` passes."""
    try:
        check(text)
    except ModuleError:
        return False
    return True


def has_spans(text: str) -> bool:
    """False only where there are none: the words may stand in a name too."""
    return any(f'"{kind}"' in text for kind in _SPANS)


def without_spans(text: str) -> str:
    """The same graph without source locations: they hold the paths of somebody's files."""
    graph = json.loads(text)
    for node in graph["nodes"]:
        if node["type"] in _SPANS:
            node.clear()
            node["type"] = "None"
    return json.dumps(graph, separators=(",", ":"))


def moved(node: dict[str, Any], by: int) -> dict[str, Any]:
    """A node of a graph that was checked, as it reads where `by` others stand before that graph's own."""
    kind: str = node["type"]
    data: Any = node.get("data")
    if kind in _REFERENCES:
        return {"type": kind, "data": [reference + by for reference in data]}
    if kind in _PLAIN or kind in _NAMED or type(data) is not dict:
        return node
    numbers = _NUMBERS.get(kind, _NO_NUMBERS)
    fields = {
        name: value + by if type(value) is int and name not in numbers else value
        for name, value in data.items()
    }
    return {"type": kind, "data": fields}


def _check_paths(nodes: list[Any]) -> None:
    """Every hit of a new process pays for this: plain loops, exact types, as json.loads makes them."""
    depths: list[int] = []
    paths: list[int] = []
    for index, node in enumerate(nodes):
        depth, path_count = 0, 1
        # Half of all nodes are leaves.
        if _type(node) not in _PLAIN:
            for reference in _references(node, index):
                if not 0 <= reference < index:
                    raise ModuleError(f"node {index} refers to node {reference}, which is not before it")
                depth = max(depth, depths[reference])
                path_count += paths[reference]
            if depth >= MAX_DEPTH or path_count > MAX_PATHS:
                raise ModuleError(f"node {index} is nested too deep or shared too often")
        depths.append(depth + 1)
        paths.append(path_count)


def _references(node: Any, index: int) -> list[int]:
    """Of a node that is no leaf."""
    kind = _type(node)
    data = None if kind is None else node.get("data")
    if type(data) is dict and kind not in _NO_FIELDS and _is_module_part(kind):
        return _field_references(data, _NUMBERS.get(kind or "", _NO_NUMBERS), index)
    if kind in _REFERENCES:
        if type(data) is not list or any(type(value) is not int for value in data):
            raise ModuleError(f"node {index} refers to something that is no node")
        return data
    if not _is_module_part(kind):
        raise ModuleError(f"node {index} has a type that no module needs: {kind!r}")
    if kind in _NAMED and isinstance(data, str):
        return []
    if kind in _NAMED or data is not None:
        raise ModuleError(f"node {index} ({kind}) does not hold what it should")
    return []


@lru_cache(maxsize=256)
def _is_module_part(kind: str | None) -> bool:
    return kind is not None and kind.startswith(_PREFIXES) and kind not in _REFUSED


def _field_references(fields: dict[str, Any], numbers: Collection[str], index: int) -> list[int]:
    found = []
    for name, value in fields.items():
        if type(value) is int:
            if name not in numbers:
                found.append(value)
        elif type(value) in _NESTED:
            raise ModuleError(f"node {index}: field {name!r} is nested")
    return found


def _type(node: Any) -> str | None:
    kind = node.get("type") if type(node) is dict else None
    return kind if type(kind) is str else None


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
