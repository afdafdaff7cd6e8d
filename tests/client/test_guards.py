"""What the client checks before TVM sees it: traces and module graphs."""

import ast
import copy
import inspect
import json
import logging
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import tvm
from tvm import te, topi
from tvm.s_tir.meta_schedule import TuneContext, search_strategy
from tvm.s_tir.meta_schedule.cost_model import RandomModel
from tvm.s_tir.meta_schedule.database import MemoryDatabase

import checks.index_map
import checks.trace
import checks.trace_allowed
from tests.checks import modules
from tests.client.conftest import MMRelu, record
from tilefarm import graph, index_map, module, trace_allowed, trace_check
from tilefarm.errors import ModuleError, TraceError
from tilefarm.space import trace_json
from tilefarm.trace_check import check_trace
from tuner.tvm_light import load_tvm


def changed(**changes: Any) -> Any:
    """The record's trace with one instruction appended or one decision replaced."""
    found = copy.deepcopy(record()["trace"])
    if "instruction" in changes:
        found[0].append(changes["instruction"])
    if "decisions" in changes:
        found[1] = changes["decisions"]
    return found


def test_an_ordinary_trace_passes() -> None:
    check_trace(record()["trace"])


@pytest.mark.parametrize(
    ("instruction", "why"),
    [
        (["UnsafeSetDType", ["b0"], [0, "float16"], []], "is not allowed"),
        (["Annotate", ["b0", '"x"'], ["pragma_import_llvm"], []], "does not take the attribute"),
        (["Annotate", ["b0", '"x"'], ["schedule_rule"], []], "does not take the attribute"),
        (["Annotate", ["b0", 10**6], ["pragma_auto_unroll_max_step"], []], "is not allowed"),
        (["SetScope", ["b0"], [0, "write", "../../etc"], []], "takes 2 attributes"),
        (["SetScope", ["b0"], [0, "../../etc"], []], "does not take the attribute"),
        (["Tensorize", ["b0"], ["a b; c", True], []], "does not take the attribute"),
        (["SampleCategorical", [], [[10**10], [1.0]], ["v90"]], "does not take the attribute"),
        (["GetSBlock", [], ["x" * 300, "main"], ["b9"]], "does not take the attribute"),
        (["Split", [[[[[[[[[[1]]]]]]]]]], [1, 0], []], "does not take the input"),
        (["Fuse", ["l999"], [1], []], "does not take the input"),
        (["Fuse", ["l1"], [1]], r"is \[kind, inputs, attributes, outputs\]"),
        ("Fuse", r"is \[kind, inputs, attributes, outputs\]"),
    ],
)
def test_an_instruction_that_tuning_does_not_need_is_refused(instruction: Any, why: str) -> None:
    with pytest.raises(TraceError, match=why):
        check_trace(changed(instruction=instruction))


@pytest.mark.parametrize(
    "decisions",
    [
        [[2, [8, 8]], [2, [8, 8]]],
        [[2, [8]]],
        [[2, [0, 64]]],
        [[0, 1]],
        [[99, 1]],
        [[-1, 1]],
        [7],
        [[True, 1]],
    ],
)
def test_a_decision_out_of_range_is_refused(decisions: Any) -> None:
    with pytest.raises(TraceError):
        check_trace(changed(decisions=decisions))


def test_a_categorical_decision_names_one_of_its_candidates() -> None:
    sample = ["SampleCategorical", [], [[0, 16], [0.5, 0.5]], ["v9"]]
    good = [[sample], [[0, 1]]]
    check_trace(good)
    for index in (2, -1, 1e9, True):
        with pytest.raises(TraceError, match="does not fit SampleCategorical"):
            check_trace([[sample], [[0, index]]])


def test_the_length_of_a_trace_is_bounded() -> None:
    nothing = ["EnterPostproc", [], [], []]
    check_trace([[nothing] * 2000, []])
    with pytest.raises(TraceError, match="at most 2000"):
        check_trace([[nothing] * 2001, []])


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [(trace_check, checks.trace), (index_map, checks.index_map), (trace_allowed, checks.trace_allowed)],
    ids=["trace", "index map", "lists"],
)
def test_client_and_service_check_the_same(ours: ModuleType, theirs: ModuleType) -> None:
    assert _meaning(ours) == _meaning(theirs)


def _meaning(source: ModuleType) -> list[str]:
    """Every statement but the docstring, the imports, and the error that each distribution has of its own."""
    statements = ast.parse(inspect.getsource(source)).body[1:]
    return [
        ast.dump(statement)
        for statement in statements
        if not isinstance(statement, ast.Import | ast.ImportFrom)
        and not (isinstance(statement, ast.ClassDef) and statement.name == "TraceError")
    ]


def measured(name: str) -> list[Any]:
    """Candidates as stock's search would measure them, postprocs and all."""
    load_tvm()
    context = TuneContext(
        mod=modules.module(name),
        target=tvm.target.Target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2}),
        space_generator="post-order-apply",
        search_strategy=search_strategy.ReplayTrace(),
        task_name="main",
        num_threads=1,
        rand_state=3,
        logger=logging.getLogger("tests"),
    )
    context.pre_tuning(100, 16, context.generate_design_space(), MemoryDatabase(), RandomModel())
    return list(context.generate_measure_candidates())


@pytest.mark.parametrize(
    "name",
    ["dense_layout_free", "dense_layout_free_int64", "batch_matmul", "max_pool", "conv2d", "softmax"],
)
def test_what_stock_search_measures_passes(name: str) -> None:
    """With all postprocs applied: layout rewriting brings an index map and its inverse."""
    candidates = measured(name)
    assert len(candidates) == 16
    for candidate in candidates:
        check_trace(trace_json(candidate.sch))


def _layout_trace(swap: Callable[[str], str]) -> Any:
    """A trace with the index map i // 8, i % 8 and its inverse, changed by `swap`."""
    index_map = tvm.tirx.IndexMap.from_func
    inverse = index_map(lambda i, j: [i * 8 + j], index_dtype="int32")
    there = index_map(lambda i: [i // 8, i % 8], inverse_index_map=inverse, index_dtype="int32")
    text = swap(tvm.ir.save_json(there))
    return [
        [
            ["GetSBlock", [], ["Y", "main"], ["b0"]],
            ["TransformLayout", ["b0", text], [0, 0, None, 0], []],
        ],
        [],
    ]


def test_an_inverse_that_does_not_undo_its_map_is_refused() -> None:
    check_trace(_layout_trace(lambda text: text))
    with pytest.raises(TraceError, match="does not undo"):
        check_trace(_layout_trace(lambda text: text.replace("prim.Add", "prim.Sub")))
    with pytest.raises(TraceError, match="does not undo"):
        check_trace(_layout_trace(lambda text: text.replace("prim.FloorMod", "prim.FloorDiv")))


def test_ordinary_modules_pass_and_come_back_equal() -> None:
    x = te.placeholder((8, 32), name="x")
    w = te.placeholder((16, 32), name="w")
    for func in (
        MMRelu["mm_relu"],
        te.create_prim_func([x, topi.nn.softmax(x)]),
        te.create_prim_func([x, w, topi.nn.dense(x, w)]),
        te.create_prim_func([x, topi.sigmoid(topi.erf(x))]),
    ):
        mod = tvm.IRModule({"main": func})
        assert module.equal(module.from_json(module.to_json(mod)), mod)


def test_a_modules_json_names_no_file_of_this_machine() -> None:
    assert "conftest.py" in tvm.ir.save_json(MMRelu)
    text = module.to_json(MMRelu)
    assert "/" not in text
    assert "Span" not in text


def _node(graph_json: dict[str, Any], index: int, node: Any) -> str:
    nodes = list(graph_json["nodes"])
    nodes[index] = node
    return json.dumps({**graph_json, "nodes": nodes})


@pytest.mark.parametrize(
    "node",
    [
        {"type": "ffi.Array", "data": [200]},
        {"type": "ffi.Array", "data": ["x"]},
        {"type": "ffi.Function", "data": "system"},
        {"type": "ffi.Module", "data": {}},
        {"type": "ir.EnvFunc", "data": "x"},
        {"type": "prim.Add", "data": {"a": 5, "b": 5}},
        {"type": "prim.Add", "data": {"a": [1]}},
        {"type": "ir.Op", "data": 3},
        {"data": 1},
        7,
    ],
    ids=str,
)
def test_a_graph_that_the_loader_may_not_survive_is_refused(node: Any) -> None:
    good = json.loads(module.to_json(MMRelu))
    with pytest.raises(ModuleError, match="node 5"):
        graph.check(_node(good, 5, node))


def test_shared_nodes_may_not_multiply_paths() -> None:
    nodes: list[dict[str, Any]] = [{"type": "None"}]
    nodes += [{"type": "ffi.Array", "data": [i, i]} for i in range(60)]
    nodes.append({"type": "ir.IRModule", "data": {"functions": 60}})
    with pytest.raises(ModuleError, match="shared too often"):
        graph.check(json.dumps({"root_index": 61, "nodes": nodes}))


def test_a_chain_of_two_thousand_is_too_deep() -> None:
    nodes: list[dict[str, Any]] = [{"type": "None"}]
    nodes += [{"type": "ffi.Array", "data": [i]} for i in range(2000)]
    nodes.append({"type": "ir.IRModule", "data": {"functions": 2000}})
    with pytest.raises(ModuleError, match="too deep"):
        graph.check(json.dumps({"root_index": 2001, "nodes": nodes}))
