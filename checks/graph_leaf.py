"""The leaves of a saved graph: nodes and fields that refer to nothing, and which sort may stand for which."""

import re
from typing import Any

from checks.graph_allowed import DTYPE_BITS, INTEGER_BOUNDS, OPS, OTHER_BOUNDS, OTHER_DTYPES, sort_of
from checks.graph_error import GraphError, GraphLimits
from checks.relax_allowed import ENV_FUNCS, OPERATORS
from checks.tensors import TENSOR, read_tensor

_BIG_INTEGER = re.compile(r"-?[0-9]{1,20}")
LITERALS = frozenset({"int", "bool", "float", "dtype"})
_SUBSORTS = {
    "expr": ("expr", "var"),
    "emptymap": ("{}",),
    "callee": ("op", "operator", "globalvar", "extern"),
    "callattrs": ("attrs", "opattrs"),
    "argument": ("expr", "var", "relax", "globalvar", "shape", "extern"),
    "sections": ("expr", "[expr]"),
}


def fits(sort: str, wanted: str) -> bool:
    """Whether a node of sort `sort` may stand where `wanted` is asked."""
    if wanted.endswith("?"):
        return sort == "none" or fits(sort, wanted[:-1])
    if wanted.startswith("["):
        items = sort[1:-1].split("|") if len(sort) > 2 else []
        return sort.startswith("[") and all(fits(item, wanted[1:-1]) for item in items)
    if wanted.startswith("{"):
        return sort in (wanted, "{}")
    if wanted == "annotations":
        return sort == "{}" or sort.startswith("{string:")
    return sort in _SUBSORTS.get(wanted, (wanted,))


def leaf(node_type: str, data: Any, limits: GraphLimits) -> str:
    """The sort of a node without references."""
    good = {
        "None": data is None,
        "bool": isinstance(data, bool),
        "int": isinstance(data, int) and not isinstance(data, bool) and -(2**63) <= data < 2**63,
        "float": isinstance(data, (int, float)) and not isinstance(data, bool),
        "ffi.BigInt": isinstance(data, str) and _BIG_INTEGER.fullmatch(data) is not None,
        "ffi.String": isinstance(data, str) and len(data) <= 4 * limits.max_name_chars,
        "ir.SourceName": isinstance(data, str) and len(data) <= 4096,
        "ir.Op": isinstance(data, str),
        "ir.EnvFunc": isinstance(data, str) and data in ENV_FUNCS,
        "DataType": isinstance(data, str) and data in DTYPE_BITS,
        TENSOR: node_type == TENSOR and isinstance(data, str) and _is_tensor(data),
    }.get(node_type)
    if good is None:
        raise GraphError("disallowed_node", f"nodes of type {show(node_type)} are not allowed")
    if not good:
        raise GraphError("bad_field", f"the data of a {node_type} is not allowed")
    if node_type == "ir.Op" and data in OPERATORS:
        return "operator"
    if node_type == "ir.Op" and data not in OPS:
        raise GraphError("disallowed_op", f"the operator {show(data)} is not allowed")
    return sort_of(node_type) or ""


def check_literal(name: str, sort: str, value: Any, node_type: str) -> None:
    if sort == "bool":
        good = isinstance(value, bool)
    elif sort == "float":
        good = isinstance(value, (int, float)) and not isinstance(value, bool)
    elif sort == "dtype":
        if not isinstance(value, str) or value not in DTYPE_BITS.keys() | OTHER_DTYPES:
            raise GraphError("unsupported_dtype", f"the dtype {show(value)} is not supported")
        good = True
    else:
        low, high = INTEGER_BOUNDS.get(name, OTHER_BOUNDS)
        good = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
    if not good:
        raise GraphError("bad_field", f"{node_type}.{name} is not allowed to be {show(value)}")


def _is_tensor(data: str) -> bool:
    try:
        read_tensor(data)
    except ValueError:
        return False
    return True


def show(value: Any) -> str:
    """A value for a message, bounded: the sender chose it."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
