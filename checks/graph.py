"""Checks the saved graph of an IRModule without TVM: the first wall of docs/security.md.

TVM's loader follows references blindly and turns some node types into live code. A graph passes only if it
is small, acyclic, of bounded depth and number of paths, and made of listed node types, operators, attributes
and dtypes, each field of the right sort. It decides nothing about meaning: a sandboxed child loads, verifies
and hashes what passed. Standard library only.
"""

import bisect
import dataclasses
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from checks.graph_allowed import (
    ATTRIBUTES,
    DTYPE_BITS,
    NODES,
    REINTERPRET,
    SCHEDULE_RULES,
    THREAD_BINDING_LOOP,
    sort_of,
)
from checks.graph_error import GraphError, GraphLimits
from checks.graph_leaf import LITERALS, check_literal, fits, leaf, show
from checks.tensors import read_tensor

__all__ = ["GraphError", "GraphLimits", "check_module_json"]

_NAME = re.compile(r"[\w.$:@+\-\[\]/ ]*", re.ASCII)
_MAX_DIMENSION = 2**31 - 1
#: Of the sorts that a container holds; shared containers of containers would double them level by level.
_MAX_SORT_CHARS = 500


def check_module_json(obj: Any, limits: GraphLimits | None = None) -> None:
    """Raises GraphError where `obj`, the parsed JSON of `tvm.ir.save_json`, is no allowed IRModule."""
    if (
        not isinstance(obj, Mapping)
        or not isinstance(obj.get("nodes"), list)
        or not _is_index(obj.get("root_index"))
    ):
        raise GraphError("not_an_ir_module", "this is not what tvm.ir.save_json makes of an IRModule")
    unknown = set(obj) - {"nodes", "root_index", "metadata"}
    if unknown:
        raise GraphError("not_an_ir_module", f"the graph has unknown keys: {show(sorted(map(str, unknown)))}")
    check = _Check(nodes=obj["nodes"], limits=limits or GraphLimits())
    check.run(obj["root_index"])


@dataclass(slots=True, kw_only=True)
class _Check:
    """One pass over the nodes, each of which may refer only to earlier ones."""

    nodes: list[Any]
    limits: GraphLimits
    sorts: list[str] = dataclasses.field(default_factory=list)
    depths: list[int] = dataclasses.field(default_factory=list)
    paths: list[int] = dataclasses.field(default_factory=list)
    #: Maps and shapes that were looked at; many nodes may refer to one.
    annotated: set[int] = dataclasses.field(default_factory=set)
    concrete: set[int] = dataclasses.field(default_factory=set)
    total_bytes: int = 0
    constant_bytes: int = 0

    def run(self, root: int) -> None:
        if len(self.nodes) > self.limits.max_nodes:
            raise GraphError(
                "too_many_nodes", f"{len(self.nodes)} nodes are more than {self.limits.max_nodes}"
            )
        for index in range(len(self.nodes)):
            try:
                self._check_node(index)
            except GraphError as error:
                function = self._function_of(index)
                raise GraphError(error.code, error.detail, node=index, function=function) from None
        self._check_root(root)

    def _check_node(self, index: int) -> None:
        node = self.nodes[index]
        if not isinstance(node, dict) or not isinstance(node.get("type"), str):
            raise GraphError("bad_field", "a node is an object with a type")
        if not node.keys() <= {"type", "data"}:
            raise GraphError("bad_field", "a node has a type and data, nothing else")
        node_type = node["type"]
        if node_type == "ffi.Array":
            sort, references = self._array(index, node.get("data"))
        elif node_type == "ffi.Map":
            sort, references = self._map(index, node.get("data"))
        elif node_type in NODES:
            references = self._object(index, node_type, node.get("data"))
            sort = self._sort_of_object(node_type, node["data"])
        else:
            sort, references = leaf(node_type, node.get("data"), self.limits), []
        self._measure(sort, references)

    def _measure(self, sort: str, references: list[int]) -> None:
        depth = 1 + max((self.depths[reference] for reference in references), default=0)
        paths = 1 + sum(self.paths[reference] for reference in references)
        if depth > self.limits.max_depth:
            raise GraphError("too_deep", f"expressions nest deeper than {self.limits.max_depth}")
        if paths > self.limits.max_paths:
            raise GraphError("too_many_paths", f"shared nodes unfold to more than {self.limits.max_paths}")
        self.sorts.append(sort)
        self.depths.append(depth)
        self.paths.append(paths)

    def _reference(self, index: int, value: Any) -> int:
        if not _is_index(value) or value >= index:
            raise GraphError("bad_reference", f"{show(value)} is not the index of an earlier node")
        return int(value)

    def _array(self, index: int, data: Any) -> tuple[str, list[int]]:
        if not isinstance(data, list):
            raise GraphError("bad_field", "an array's data is a list")
        references = [self._reference(index, value) for value in data]
        return f"[{self._kinds(references)}]", references

    def _map(self, index: int, data: Any) -> tuple[str, list[int]]:
        if not isinstance(data, list) or len(data) % 2:
            raise GraphError("bad_field", "a map's data is a list of keys and values in turn")
        references = [self._reference(index, value) for value in data]
        keys, values = self._kinds(references[::2]), self._kinds(references[1::2])
        if len(set(references[::2])) * 2 != len(references):
            raise GraphError("bad_field", "a map has a key twice")
        return ("{" + keys + ":" + values + "}" if references else "{}"), references

    def _kinds(self, references: list[int]) -> str:
        kinds = sorted({self.sorts[item] for item in references})
        if sum(map(len, kinds)) > _MAX_SORT_CHARS:
            raise GraphError("bad_field", "a container holds too many kinds of things")
        return "|".join(kinds)

    def _object(self, index: int, node_type: str, data: Any) -> list[int]:
        fields = NODES[node_type]
        if not isinstance(data, dict) or data.keys() != fields.keys():
            raise GraphError("bad_field", f"{node_type} has the fields {', '.join(sorted(fields))}")
        references = [
            self._field(index, (node_type, name), data[name], sort)
            for name, sort in fields.items()
            if sort not in LITERALS
        ]
        for name, sort in fields.items():
            if sort in LITERALS:
                check_literal(name, sort, data[name], node_type)
        self._check_meaning(node_type, data)
        return references

    def _sort_of_object(self, node_type: str, data: dict[str, Any]) -> str:
        """A call of Relax is no expression of a TensorIR function."""
        if node_type == "ir.Call" and self.sorts[data["op"]] != "op":
            return "relax"
        return sort_of(node_type) or ""

    def _field(self, index: int, where: tuple[str, str], value: Any, wanted: str) -> int:
        reference = self._reference(index, value)
        if not fits(self.sorts[reference], wanted):
            raise GraphError("bad_field", f"{where[0]}.{where[1]} must not be a {self._type(reference)}")
        if wanted == "annotations" and reference not in self.annotated:
            self._check_annotations(self.nodes[reference]["data"])
            self.annotated.add(reference)
        return reference

    def _check_meaning(self, node_type: str, data: dict[str, Any]) -> None:
        if node_type == "tirx.BufferType":
            self._check_buffer(data)
        elif node_type == "tirx.For" and data["kind"] == THREAD_BINDING_LOOP:
            raise GraphError("already_scheduled", "a loop is bound to a thread: the function is scheduled")
        elif node_type in ("ir.GlobalVar", "ir.Var", "s_tir.SBlock"):
            self._check_name(data.get("name_hint", data.get("name")))
        elif node_type == "tirx.IterVar" and self._data(data["thread_tag"]):
            raise GraphError(
                "already_scheduled", "an iterator carries a thread tag: the function is scheduled"
            )
        elif node_type in ("relax.expr.DataflowVar", "relax.expr.ExternFunc"):
            self._check_name(data.get("name", data.get("global_symbol")))
        elif node_type == "relax.expr.ShapeExpr":
            self._check_concrete(data["values"])
        elif node_type == "ir.GenericConst":
            self._check_constant(data)
        elif node_type == "ir.Call" and self.sorts[data["op"]] == "op":
            self._check_call(data)

    def _check_name(self, reference: Any) -> None:
        name = self._data(reference)
        if len(name) > self.limits.max_name_chars or _NAME.fullmatch(name) is None:
            raise GraphError("bad_name", f"the name {show(name)} is too long or has characters not allowed")

    def _check_call(self, data: dict[str, Any]) -> None:
        attrs = self.nodes[data["attrs"]]
        if attrs["type"] != "None" and self._data(attrs["data"]["__dict__"]):
            raise GraphError("disallowed_attribute", "a call carries attributes")
        if self._data(data["ty_args"]):
            raise GraphError("disallowed_attribute", "a call carries type arguments")
        if not fits(self.sorts[data["args"]], "[expr]"):
            raise GraphError("bad_field", "a TensorIR operator has an argument of Relax")
        if self._data(data["op"]) == REINTERPRET:
            self._check_reinterpreted(data)

    def _check_reinterpreted(self, data: dict[str, Any]) -> None:
        """Of a number, no pointer would come of it; and as many bits, or LLVM would abort."""
        bits = [self._bits(data["ty"])]
        bits += [self._bits(self._data(argument).get("ty")) for argument in self._data(data["args"])]
        if len(bits) != 2 or None in bits or bits[0] != bits[1]:
            raise GraphError("bad_field", f"{REINTERPRET} is of one number, for another of as many bits")

    def _bits(self, of_type: Any) -> int | None:
        """Of an element of this type; None where it is no number."""
        node = {} if of_type is None else self.nodes[of_type]
        return DTYPE_BITS.get(node["data"]["dtype"]) if node.get("type") == "ir.PrimType" else None

    def _check_concrete(self, values: int) -> None:
        if values in self.concrete:
            return
        self.concrete.add(values)
        for value in self._data(values):
            if self._type(value) != "ir.IntImm":
                raise GraphError("symbolic_shape", "a tensor's shape is symbolic: bind it to numbers first")

    def _check_constant(self, data: dict[str, Any]) -> None:
        """Its tensor is that of its type, or folded to one element."""
        tensor_type = self.nodes[data["ty"]]
        if tensor_type["type"] != "relax.TensorType" or self._type(tensor_type["data"]["shape"]) == "None":
            raise GraphError("bad_field", "a constant is not a tensor of known shape")
        dtype = self.nodes[tensor_type["data"]["dtype"]]
        if dtype["type"] != "ir.PrimType" or dtype["data"]["dtype"] not in DTYPE_BITS:
            raise GraphError("unsupported_dtype", "a constant's elements have no type that can be filled")
        shape = self._shape(self._data(tensor_type["data"]["shape"])["values"])
        bits = DTYPE_BITS[dtype["data"]["dtype"]]
        head = read_tensor(self._data(data["value"]))
        if head.bits != bits or head.shape not in (tuple(shape), ()):
            raise GraphError("bad_field", "a constant's tensor does not fit its type")
        self.constant_bytes += math.prod(shape) * bits // 8
        if self.constant_bytes > self.limits.max_constant_bytes:
            raise GraphError(
                "too_large", f"the constants are more than {self.limits.max_constant_bytes} bytes"
            )

    def _check_buffer(self, data: dict[str, Any]) -> None:
        dtype = self.nodes[data["dtype"]]
        if dtype["type"] != "ir.PrimType" or dtype["data"]["dtype"] not in DTYPE_BITS:
            raise GraphError("unsupported_dtype", "a buffer's elements have no type that can be filled")
        if self._data(data["storage_scope"]) not in ("global", ""):
            raise GraphError("already_scheduled", "a buffer has a storage scope: the function is scheduled")
        shape = self._shape(data["shape"])
        size_bytes = math.prod(shape) * DTYPE_BITS[dtype["data"]["dtype"]] // 8
        self.total_bytes += size_bytes
        if size_bytes > self.limits.max_buffer_bytes or self.total_bytes > self.limits.max_total_bytes:
            raise GraphError("too_large", f"a buffer of {show(shape)} elements exceeds the memory allowed")

    def _shape(self, reference: Any) -> list[int]:
        dimensions = self._data(reference)
        if len(dimensions) > self.limits.max_rank:
            raise GraphError("bad_shape", f"a buffer has more than {self.limits.max_rank} dimensions")
        return [self._dimension(dimension) for dimension in dimensions]

    def _dimension(self, reference: int) -> int:
        node = self.nodes[reference]
        if node["type"] != "ir.IntImm":
            raise GraphError("symbolic_shape", "a buffer's shape is symbolic: bind it to numbers first")
        size = int(self._data(node["data"]["value"]))
        if not 1 <= size <= _MAX_DIMENSION:
            raise GraphError("bad_shape", f"a buffer has a dimension of {show(size)}")
        return size

    def _check_annotations(self, items: list[int]) -> None:
        for key, value in zip(items[::2], items[1::2], strict=True):
            name = self._data(key)
            wanted = ATTRIBUTES.get(name)
            if wanted is None:
                raise GraphError("disallowed_attribute", f"the attribute {show(name)} is not allowed")
            if not self._annotation_fits(value, wanted):
                raise GraphError(
                    "disallowed_attribute", f"the value of attribute {show(name)} is not allowed"
                )
            if name == "tirx.is_scheduled" and self._data(value):
                raise GraphError("already_scheduled", "the function carries tirx.is_scheduled")

    def _annotation_fits(self, reference: int, wanted: str) -> bool:
        sort = self.sorts[reference]
        value = self.nodes[reference]
        if wanted == "flag":
            return sort in ("bool", "integer") or value["type"] == "ir.IntImm"
        if wanted == "integer":
            return sort == "integer" or value["type"] == "ir.IntImm"
        if wanted == "integers":
            return sort in ("[]", "[integer]")
        if wanted == "rule":
            return sort == "string" and value["data"] in SCHEDULE_RULES
        return (
            sort == "string"
            and len(value["data"]) <= self.limits.max_name_chars
            and _NAME.fullmatch(value["data"]) is not None
        )

    def _check_root(self, root: int) -> None:
        if root >= len(self.nodes) or self._type(root) != "ir.IRModule":
            raise GraphError("not_an_ir_module", "the root of the graph is not an IRModule")
        if not self._data(self.nodes[root]["data"]["functions"]):
            raise GraphError("no_prim_func", "the module holds no PrimFunc")

    def _type(self, reference: int) -> str:
        return str(self.nodes[reference]["type"])

    def _data(self, reference: Any) -> Any:
        return self.nodes[reference]["data"]

    def _function_of(self, index: int) -> str | None:
        """Nodes come before what holds them, so the next function is the one that holds this node."""
        functions = [
            position
            for position, node in enumerate(self.nodes)
            if isinstance(node, dict) and node.get("type") in ("tirx.PrimFunc", "relax.expr.Function")
        ]
        place = bisect.bisect_left(functions, index)
        return _name_of_function(self.nodes, functions[place]) if place < len(functions) else None


def _name_of_function(nodes: list[Any], function: int) -> str | None:
    """The GlobalVar's name under which a PrimFunc stands; the graph is not to be trusted here."""
    try:
        for node in nodes[function:]:
            if node["type"] == "ffi.Map" and function in node["data"][1::2]:
                place = node["data"][1::2].index(function)
                global_var = nodes[node["data"][2 * place]]
                name = nodes[global_var["data"]["name_hint"]]["data"]
                return name[:300] if isinstance(name, str) else None
    except (KeyError, IndexError, TypeError):
        return None
    return None


def _is_index(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
