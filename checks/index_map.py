"""Checks the index map that a layout instruction of a trace carries as JSON text: affine and small.

Standard library only.
"""

import json
from typing import Any

_MAX_TEXT_CHARS = 32_768
_MAX_NODES = 300
_AFFINE = frozenset({"prim.Add", "prim.Sub", "prim.Mul", "prim.FloorDiv", "prim.FloorMod"})
#: Operators whose second operand must not depend on an index, or the map would not be affine.
_BY_CONSTANT = frozenset({"prim.Mul", "prim.FloorDiv", "prim.FloorMod"})
_FIELDS = {
    "ir.PrimType": {"span", "dtype"},
    "ir.Var": {"span", "ty", "name"},
    "ir.IntImm": {"span", "ty", "value"},
    "tirx.IndexMap": {"initial_indices", "final_indices", "inverse_index_map"},
    **{name: {"span", "ty", "a", "b"} for name in _AFFINE},
}
_LEAVES: dict[str, type] = {
    "None": type(None),
    "int": int,
    "ffi.String": str,
}


def check_index_map(text: str) -> str | None:
    """What is wrong with the map, or None."""
    if len(text) > _MAX_TEXT_CHARS:
        return "an index map is too long"
    try:
        graph = json.loads(text)
        nodes, root = graph["nodes"], graph["root_index"]
        if len(nodes) > _MAX_NODES:
            return "an index map is too large"
        if nodes[root]["type"] != "tirx.IndexMap":
            return "an index map has another root"
        varying = set(nodes[nodes[root]["data"]["initial_indices"]]["data"])
        for index, node in enumerate(nodes):
            if not _node_is_allowed(index, node, nodes, varying):
                return f"an index map holds what is not affine (node {index})"
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        return "an index map does not read"
    return None


def _node_is_allowed(index: int, node: Any, nodes: list[Any], varying: set[int]) -> bool:  # noqa: PLR0911 - one line per kind of node
    """Adds the node to `varying` where it depends on an index; other variables are a trace's samples."""
    kind, data = node["type"], node.get("data")
    if kind in _LEAVES:
        return isinstance(data, _LEAVES[kind]) and (not isinstance(data, int) or abs(data) < 2**31)
    if kind == "ffi.Array":
        return all(_earlier(index, item) for item in data)
    if kind not in _FIELDS or data.keys() != _FIELDS[kind]:
        return False
    if kind == "ir.PrimType":
        return data["dtype"] in ("int32", "int64") and _earlier(index, data["span"])
    if not all(_earlier(index, value) for value in data.values()):
        return False
    if kind == "tirx.IndexMap":
        return bool(nodes[data["inverse_index_map"]]["type"] == "None")
    return kind not in _AFFINE or _is_affine(index, kind, data, varying)


def _is_affine(index: int, kind: str, data: dict[str, int], varying: set[int]) -> bool:
    if data["a"] in varying or data["b"] in varying:
        varying.add(index)
    return kind not in _BY_CONSTANT or data["b"] not in varying


def _earlier(index: int, value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < index
