"""Checks the index map that a layout instruction of a trace carries as JSON text: affine and small.

Layout rewriting of stock TVM gives an inverse along with the map; it must be affine too, and undo the map.
This is the client's copy of what the service checks; tests keep both equal, function by function.
"""

import hashlib
import json
from typing import Any

_MAX_TEXT_CHARS = 32_768
_MAX_NODES = 300
#: Dimensions on either side.
_MAX_RANK = 32
#: Points at which a map and its inverse are compared, and the size of the box that they are taken from.
_POINTS = 64
_AXIS_BITS = 20
_AFFINE = frozenset({"prim.Add", "prim.Sub", "prim.Mul", "prim.FloorDiv", "prim.FloorMod"})
#: Operators whose second operand must not depend on an index, or the map would not be affine.
_BY_CONSTANT = frozenset({"prim.Mul", "prim.FloorDiv", "prim.FloorMod"})
_FIELDS = {
    "ir.PrimType": {"span", "dtype"},
    "ir.Var": {"span", "ty", "name"},
    "ir.IntImm": {"span", "ty", "value"},
    "tirx.IndexMap": {"initial_indices", "final_indices", "inverse_index_map"},
    "prim.Cast": {"span", "ty", "value"},
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
        return _fault(graph["nodes"], graph["root_index"], text)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError, ZeroDivisionError):
        return "an index map does not read"


def _fault(nodes: list[Any], root: int, text: str) -> str | None:
    if len(nodes) > _MAX_NODES:
        return "an index map is too large"
    if nodes[root]["type"] != "tirx.IndexMap":
        return "an index map has another root"
    inverse = nodes[root]["data"]["inverse_index_map"]
    maps = [root] if nodes[inverse]["type"] == "None" else [root, inverse]
    varying = {place for one in maps for place in _indices(nodes, one)}
    for index, node in enumerate(nodes):
        if not _node_is_allowed(index, node, nodes, varying):
            return f"an index map holds what is not affine (node {index})"
    if len(maps) == 2 and not _undoes(nodes, root, inverse, text):
        return "the inverse of an index map does not undo it"
    return None


def _node_is_allowed(index: int, node: Any, nodes: list[Any], varying: set[int]) -> bool:  # noqa: PLR0911 - one line per kind of node
    """Adds the node to `varying` where it depends on an index; other variables are a trace's samples."""
    kind, data = node["type"], node.get("data")
    if kind in _LEAVES:
        return isinstance(data, _LEAVES[kind]) and (not isinstance(data, int) or abs(data) < 2**31)
    if kind == "ffi.Array":
        return len(data) <= _MAX_RANK and all(_earlier(index, item) for item in data)
    if kind not in _FIELDS or data.keys() != _FIELDS[kind]:
        return False
    if kind == "ir.PrimType":
        return data["dtype"] in ("int32", "int64") and _earlier(index, data["span"])
    if not all(_earlier(index, value) for value in data.values()):
        return False
    if kind == "tirx.IndexMap":
        return nodes[data["inverse_index_map"]]["type"] in ("None", "tirx.IndexMap")
    if kind == "prim.Cast":
        return _is_cast(index, data, nodes, varying)
    return kind not in _AFFINE or _is_affine(index, kind, data, varying)


def _is_cast(index: int, data: dict[str, int], nodes: list[Any], varying: set[int]) -> bool:
    """Between integer types: maps of Relax functions take int32 indices to int64."""
    if data["value"] in varying:
        varying.add(index)
    return bool(nodes[data["ty"]]["type"] == "ir.PrimType")


def _is_affine(index: int, kind: str, data: dict[str, int], varying: set[int]) -> bool:
    if data["a"] in varying or data["b"] in varying:
        varying.add(index)
    return kind not in _BY_CONSTANT or data["b"] not in varying


def _earlier(index: int, value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < index


def _indices(nodes: list[Any], index_map: int) -> list[int]:
    places: list[int] = nodes[nodes[index_map]["data"]["initial_indices"]]["data"]
    return places


def _undoes(nodes: list[Any], forward: int, inverse: int, text: str) -> bool:
    """Whether the inverse leads back: at points that the map's own text decides, of a box where it may.

    Maps are simplified for the extents of a buffer, which stand elsewhere: the box is found along its axes.
    """
    if nodes[nodes[inverse]["data"]["inverse_index_map"]]["type"] != "None":
        return False

    def leads_back(point: list[int]) -> bool:
        return _mapped(nodes, inverse, _mapped(nodes, forward, point)) == point

    rank = len(_indices(nodes, forward))
    extents = []
    for axis in range(rank):
        bits = 0
        while bits < _AXIS_BITS and leads_back(
            [(2 << bits) - 1 if one == axis else 0 for one in range(rank)]
        ):
            bits += 1
        extents.append(1 << bits)
    noise = hashlib.shake_256(text.encode()).digest(4 * rank * _POINTS)
    numbers = [int.from_bytes(noise[at : at + 4], "big") for at in range(0, len(noise), 4)]
    points = [numbers[at : at + rank] for at in range(0, len(numbers), rank)]
    inside = [[number % most for number, most in zip(one, extents, strict=True)] for one in points]
    return max(extents, default=1) > 1 and all(leads_back(point) for point in inside)


def _mapped(nodes: list[Any], index_map: int, point: list[int]) -> list[int]:
    """The map at a point; variables that are no index of it are a trace's samples and have no value here."""
    values = dict(zip(_indices(nodes, index_map), point, strict=True))
    for place in range(index_map):
        data = nodes[place].get("data")
        kind = nodes[place]["type"]
        if kind == "ir.IntImm":
            values[place] = nodes[data["value"]]["data"]
        elif kind == "prim.Cast" and data["value"] in values:
            values[place] = values[data["value"]]
        elif kind in _AFFINE and data["a"] in values and data["b"] in values:
            values[place] = _computed(kind, values[data["a"]], values[data["b"]])
    final: list[int] = nodes[nodes[index_map]["data"]["final_indices"]]["data"]
    return [values[place] for place in final]


def _computed(kind: str, a: int, b: int) -> int:
    if kind == "prim.Add":
        return a + b
    if kind == "prim.Sub":
        return a - b
    if kind == "prim.Mul":
        return a * b
    return a // b if kind == "prim.FloorDiv" else a % b
