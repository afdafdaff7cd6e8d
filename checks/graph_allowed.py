"""What a submitted module may be made of: the first wall's allow-lists, as data.

Fields and their types follow the reflection of apache-tvm 0.27 (`TypeInfo.fields`). In the saved graph a
field is an index of an earlier node, save where it is a plain number: those are `int`, `bool`, `float`,
`dtype`. `x?` may be absent (a node of type None); `[x]` is an array of x; `{x:y}` a map.
"""

from typing import Final

from checks import relax_allowed

_EXPR: Final = {"span": "span?", "ty": "type"}
_BINARY: Final = {**_EXPR, "a": "expr", "b": "expr"}
_TYPE: Final = {"span": "span?"}

#: Fields by node type.
NODES: Final[dict[str, dict[str, str]]] = {
    # Containers of the module
    "ir.IRModule": {
        "functions": "{globalvar:function}",
        "global_var_map_": "{string:globalvar}",
        "source_map": "sourcemap",
        "attrs": "attrs",
        "global_infos": "emptymap",
    },
    "ir.GlobalVar": {**_EXPR, "name_hint": "string"},
    "ir.SourceMap": {"source_map": "emptymap"},
    "ir.DictAttrs": {"__dict__": "annotations"},
    "ir.Span": {
        "source_name": "sourcename",
        "line": "int",
        "column": "int",
        "end_line": "int",
        "end_column": "int",
    },
    "tirx.PrimFunc": {
        **_EXPR,
        "attrs": "attrs",
        "params": "[var]",
        "ret_type": "type",
        "body": "stmt",
    },
    # Types
    "ir.Type": _TYPE,
    "ir.PrimType": {**_TYPE, "dtype": "dtype"},
    "ir.PointerType": {**_TYPE, "element_type": "type", "storage_scope": "string"},
    "ir.TupleType": {**_TYPE, "fields": "[type]"},
    "tirx.BufferRegionType": _TYPE,
    "tirx.BufferType": {
        **_TYPE,
        "dtype": "type",
        "storage_scope": "string",
        "shape": "[expr]",
        "strides": "[expr]",
        "elem_offset": "expr",
        "data_alignment": "int",
        "offset_factor": "int",
        "layout": "none",
        "allocated_addr": "[expr]",
    },
    "relax.FuncType": {
        **_TYPE,
        "params": "[type]?",
        "ret": "type",
        "derive_func": "envfunc?",
        "purity": "bool",
    },
    "relax.ShapeType": {**_TYPE, "values": "[expr]?", "ndim": "int"},
    "relax.TensorType": {
        **_TYPE,
        "shape": "shape?",
        "dtype": "type?",
        "vdevice": "none",
        "ndim": "int",
    },
    "relax.expr.ShapeExpr": {**_EXPR, "values": "[expr]"},
    # Expressions
    "ir.Var": {**_EXPR, "name": "string"},
    "ir.IntImm": {**_EXPR, "value": "integer"},
    "ir.FloatImm": {**_EXPR, "value": "float"},
    "ir.TensorLoad": {**_EXPR, "source": "var", "indices": "[expr]"},
    "ir.TensorRegion": {**_EXPR, "source": "var", "region": "[range]"},
    "ir.Call": {
        **_EXPR,
        "op": "callee",
        "args": "[argument]",
        "attrs": "callattrs?",
        "ty_args": "[type]",
    },
    "ir.Range": {"min": "expr", "extent": "expr", "span": "span?"},
    "prim.Cast": {**_EXPR, "value": "expr"},
    "prim.Not": {**_EXPR, "a": "expr"},
    "prim.BitwiseNot": {**_EXPR, "a": "expr"},
    "prim.Select": {**_EXPR, "condition": "expr", "true_value": "expr", "false_value": "expr"},
    "prim.Let": {**_EXPR, "var": "var", "value": "expr", "body": "expr"},
    **{
        f"prim.{name}": _BINARY
        for name in (
            *("Add", "Sub", "Mul", "Div", "Mod", "FloorDiv", "FloorMod", "Min", "Max"),
            *("EQ", "NE", "LT", "LE", "GT", "GE", "And", "Or"),
            *("BitwiseAnd", "BitwiseOr", "BitwiseXor", "LShift", "RShift"),
        )
    },
    # Statements
    "tirx.SeqStmt": {**_TYPE, "seq": "[stmt]"},
    "tirx.BufferStore": {**_TYPE, "buffer": "var", "value": "expr", "indices": "[expr]"},
    "tirx.Bind": {**_TYPE, "var": "var", "value": "expr"},
    "tirx.Evaluate": {**_TYPE, "value": "expr"},
    "tirx.IfThenElse": {
        **_TYPE,
        "condition": "expr",
        "then_case": "stmt",
        "else_case": "stmt?",
    },
    "tirx.For": {
        **_TYPE,
        "loop_var": "var",
        "min": "expr",
        "extent": "expr",
        "kind": "int",
        "body": "stmt",
        "thread_binding": "itervar?",
        "annotations": "annotations",
        "step": "expr?",
    },
    "tirx.IterVar": {
        "dom": "range?",
        "var": "var",
        "iter_type": "int",
        "thread_tag": "string",
        "span": "span?",
    },
    "s_tir.MatchBufferRegion": {"buffer": "var", "source": "region"},
    "s_tir.SBlock": {
        **_TYPE,
        "iter_vars": "[itervar]",
        "reads": "[region]",
        "writes": "[region]",
        "name_hint": "string",
        "alloc_buffers": "[var]",
        "match_buffers": "[match]",
        "annotations": "annotations",
        "init": "stmt?",
        "body": "stmt",
    },
    "s_tir.SBlockRealize": {
        **_TYPE,
        "iter_values": "[expr]",
        "predicate": "expr",
        "block": "block",
    },
    **relax_allowed.NODES,
    **relax_allowed.OPERATOR_ATTRIBUTES,
}

_SORTS_BY_TYPE: Final[dict[str, str]] = {
    "None": "none",
    "bool": "bool",
    "int": "integer",
    "float": "float",
    "ffi.BigInt": "integer",
    "ffi.String": "string",
    "ir.Op": "op",
    "ir.SourceName": "sourcename",
    "ir.IRModule": "module",
    "ir.GlobalVar": "globalvar",
    "ir.SourceMap": "sourcemap",
    "ir.DictAttrs": "attrs",
    "ir.Span": "span",
    "ir.Range": "range",
    "ir.Var": "var",
    "ir.TensorRegion": "region",
    "relax.expr.ShapeExpr": "shape",
    "tirx.PrimFunc": "function",
    "tirx.IterVar": "itervar",
    "s_tir.MatchBufferRegion": "match",
    "s_tir.SBlock": "block",
    **relax_allowed.SORTS,
    **dict.fromkeys(relax_allowed.OPERATOR_ATTRIBUTES, "opattrs"),
}


def sort_of(node_type: str) -> str | None:
    """What a node of this type may stand for; None where the type is not allowed."""
    if node_type in _SORTS_BY_TYPE:
        return _SORTS_BY_TYPE[node_type]
    fields = NODES.get(node_type)
    if fields is None:
        return None
    if fields is _TYPE or node_type.endswith("Type"):
        return "type"
    return "expr" if "ty" in fields else "stmt"


#: The bits of a number as another number of as many: polynomials in place of exp make powers of two so.
REINTERPRET: Final = "tirx.reinterpret"
#: Operators: pure arithmetic on their arguments.
OPS: Final = frozenset(
    {
        *(f"prim.{name}" for name in ("if_then_else", "likely", "ceil", "log2", "clz")),
        *(
            f"tirx.{name}"
            for name in (
                *("exp", "exp2", "exp10", "log", "log10", "log1p", "pow", "sqrt", "rsqrt"),
                *("sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "asinh", "acosh"),
                *("atanh", "atan2", "erf", "sigmoid", "floor", "round", "nearbyint", "trunc", "fabs"),
                *("fmod", "hypot", "copysign", "ldexp", "nextafter", "popcount", "fma"),
                *("isnan", "isfinite", "isinf", "q_multiply_shift", "q_multiply_shift_per_axis"),
                REINTERPRET.removeprefix("tirx."),
            )
        ),
    }
)

#: Attributes of a function and annotations of blocks, with what their value may be.
ATTRIBUTES: Final[dict[str, str]] = {
    "global_symbol": "string",
    "tirx.noalias": "flag",
    "tirx.is_scheduled": "flag",
    "s_tir": "flag",
    "op_pattern": "integer",
    "layout_free_buffers": "integers",
    "axis": "integer",
    "const_matrix": "flag",
    "schedule_rule": "rule",
    "meta_schedule.write_cache_level": "integers",
    "num_input": "integer",
    "relax.force_pure": "flag",
}

#: The rules that topi itself names; any other name would call a global function of the sender's choice.
SCHEDULE_RULES: Final = frozenset(
    {
        "None",
        "conv2d_NCHWc_int8",
        "conv2d_nchw_winograd_data_pack",
        "conv2d_nchw_winograd_inverse",
        "conv2d_nhwc_winograd_data_pack",
        "conv2d_nhwc_winograd_inverse",
        "meta_schedule.adaptive_pool_avg",
        "meta_schedule.adaptive_pool_max",
        "meta_schedule.adaptive_pool_sum",
        "meta_schedule.pool_avg",
        "meta_schedule.pool_max",
        "meta_schedule.pool_sum",
    }
)

#: Bits of one element, by the dtypes that the runner can allocate and fill.
DTYPE_BITS: Final[dict[str, int]] = {
    "bool": 8,
    **{f"{sign}int{bits}": bits for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "float16": 16,
    "float32": 32,
    "float64": 64,
    "bfloat16": 16,
    "float8_e4m3": 8,
    "float8_e4m3fn": 8,
    "float8_e5m2": 8,
}
#: Types of values that are not elements of a buffer.
OTHER_DTYPES: Final = frozenset({"handle", "void"})

#: Bounds of the plain integers.
INTEGER_BOUNDS: Final[dict[str, tuple[int, int]]] = {
    "line": (0, 2**31 - 1),
    "column": (0, 2**31 - 1),
    "end_line": (0, 2**31 - 1),
    "end_column": (0, 2**31 - 1),
    "data_alignment": (-1, 4096),
    "offset_factor": (0, 2**31 - 1),
    "ndim": (-1, 64),
    "kind": (0, 4),
    "iter_type": (0, 8),
}
THREAD_BINDING_LOOP: Final = 4
#: Of integers of Relax operators and tuples.
OTHER_BOUNDS: Final = (-(2**31), 2**31 - 1)
