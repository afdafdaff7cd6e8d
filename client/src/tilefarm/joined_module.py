"""One module of several functions, made of the JSON of each: on a thread that no compile waits for.

It needs no TVM, which is not to be used there.
"""

import json
from collections.abc import Mapping
from typing import Any

from tilefarm import graph


def joined(functions: Mapping[str, str]) -> str:
    """Node JSON of an IRModule; `functions` are by name the JSON texts of modules with one PrimFunc each.

    Each takes its name as GlobalVar and as global_symbol; source locations stay here. ModuleError where a
    text is no such module.
    """
    nodes: list[dict[str, Any]] = []
    pairs: list[tuple[int, int, int]] = []
    root: dict[str, Any] = {}
    for name, text in functions.items():
        bare = graph.without_spans(text)
        graph.check(bare)
        found = json.loads(bare)
        name_at, offset = len(nodes), len(nodes) + 1
        nodes.append({"type": "ffi.String", "data": name})
        nodes.extend(graph.moved(node, offset) for node in found["nodes"])
        root_at = found["root_index"] + offset
        root, nodes[root_at] = nodes[root_at]["data"], {"type": "None"}
        variable_at, function_at = nodes[root["functions"]]["data"]
        nodes[variable_at]["data"]["name_hint"] = name_at
        _call(nodes, function_at, name_at)
        pairs.append((name_at, variable_at, function_at))
    by_variable = [place for _, variable, function in pairs for place in (variable, function)]
    by_name = [place for name, variable, _ in pairs for place in (name, variable)]
    nodes.append({"type": "ffi.Map", "data": by_variable})
    nodes.append({"type": "ffi.Map", "data": by_name})
    maps = {"functions": len(nodes) - 2, "global_var_map_": len(nodes) - 1}
    nodes.append({"type": "ir.IRModule", "data": {**root, **maps}})
    return json.dumps({"root_index": len(nodes) - 1, "nodes": nodes}, separators=(",", ":"))


def _call(nodes: list[dict[str, Any]], function_at: int, name_at: int) -> None:
    """The function's global_symbol is its name: it was `main`, as that of every workload."""
    attributes = nodes[nodes[function_at]["data"]["attrs"]]["data"]["__dict__"]
    places = nodes[attributes]["data"]
    for at in range(0, len(places), 2):
        if nodes[places[at]].get("data") == "global_symbol":
            places[at + 1] = name_at
