"""What a workload computes: the names of its blocks, by which people search. Pure; reads a module's JSON."""

import json
import re
from typing import Any

#: As TOPI and TVMScript name blocks: `T_add_1`, `compute2`.
_NUMBERED = re.compile(r"^(?:T_)?(.+?)(?:_?\d+)?$")
_MAX_CHARS = 400


def operations(module: str) -> str:
    """The names of its blocks without numbers, each once, in order: `pad_temp conv2d_nchw add`.

    Empty where the text is no canonical module; cut at 400 characters, between names.
    """
    try:
        nodes = json.loads(module)["nodes"]
        names = [_name(nodes, node["data"]) for node in nodes if node.get("type") == "s_tir.SBlock"]
    except (ValueError, TypeError, KeyError, IndexError, AttributeError):
        return ""
    said = ""
    for name in dict.fromkeys(name for name in names if name and name != "root"):
        if len(said) + 1 + len(name) > _MAX_CHARS:
            break
        said = f"{said} {name}".lstrip()
    return said


def _name(nodes: list[dict[str, Any]], block: dict[str, Any]) -> str:
    found = _NUMBERED.match(str(nodes[block["name_hint"]]["data"]))
    return found[1] if found else ""
