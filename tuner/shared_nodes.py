"""A saved module's graph with one node for all values that are equal, and none that nothing names.

TVM saves a number, a string or an empty array as often as it stands there: half of a graph. It compares such
values by what they hold and copies one before it changes it, so that one may stand for all and the module is
an equal one, which takes half the time to check and to load: a compile waits for that. What is itself (a
variable, a buffer, a block, a loop) stays apart.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from checks.graph_allowed import NODES
from checks.graph_leaf import LITERALS

#: Values, not things.
_VALUES: Final = frozenset(
    {"None", "bool", "int", "float", "ffi.String", "ffi.Array", "ffi.Map"}
    | {"ir.Op", "ir.IntImm", "ir.FloatImm", "ir.Range", "ir.Type", "ir.PrimType"}
    | {"relax.ShapeType", "relax.expr.ShapeExpr", "relax.TensorType"}
)
_CONTAINERS: Final = frozenset({"ffi.Array", "ffi.Map"})
#: Of a node's fields those that name another node.
_REFERENCES: Final = {
    kind: frozenset(name for name, sort in fields.items() if sort not in LITERALS)
    for kind, fields in NODES.items()
}
_NOTHING: Final = {"type": "None"}

Node = Mapping[str, Any]


def knows(graph: Mapping[str, Any]) -> bool:
    """Whether it is known of each node what in it names another."""
    return all(
        not isinstance(node.get("data"), dict) or node["type"] in _REFERENCES for node in graph["nodes"]
    )


def shared(graph: Mapping[str, Any]) -> dict[str, Any]:
    """Of the parsed JSON of a module that is known; its source locations are dropped as well."""
    nodes: list[Node] = [*graph["nodes"], _NOTHING]
    nodes = [_without_span(node, len(nodes) - 1) for node in nodes]
    wanted = _named_from(nodes, graph["root_index"])
    made: list[Node] = []
    #: Where an equal value stands already; and of each old node the new one.
    known: dict[str, int] = {}
    places: dict[int, int] = {}
    # That there is none comes first: everything may refer to it.
    for index in sorted(wanted, key=lambda index: (nodes[index] is not _NOTHING, index)):
        node = _moved(nodes[index], places)
        # Of numbers too: minus zero is not zero, and one is not true.
        text = repr(node) if node["type"] in _VALUES else ""
        places[index] = known.get(text, len(made))
        if places[index] == len(made):
            made.append(node)
            if text:
                known[text] = places[index]
    return {**graph, "nodes": made, "root_index": places[graph["root_index"]]}


def _without_span(node: Node, nothing: int) -> Node:
    data = node.get("data")
    return {**node, "data": {**data, "span": nothing}} if isinstance(data, dict) and "span" in data else node


def _named_from(nodes: Sequence[Node], root: int) -> set[int]:
    """What the root needs, itself among them; nodes refer to earlier ones, or to the last: nothing."""
    wanted = {root}
    for index in range(root, -1, -1):
        if index in wanted:
            wanted.update(_references(nodes[index]))
    return wanted


def _references(node: Node) -> list[int]:
    kind, data = node["type"], node.get("data")
    if kind in _CONTAINERS:
        return list(data or ())
    return [data[name] for name in _REFERENCES[kind]] if isinstance(data, dict) else []


def _moved(node: Node, places: Mapping[int, int]) -> Node:
    kind, data = node["type"], node.get("data")
    if kind in _CONTAINERS:
        return {"type": kind, "data": [places[reference] for reference in data or ()]}
    if not isinstance(data, dict):
        return node
    names = _REFERENCES[kind]
    return {
        "type": kind,
        "data": {name: places[value] if name in names else value for name, value in data.items()},
    }
