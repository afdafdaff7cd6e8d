"""What the client checks before TVM sees it: traces and module graphs."""

import copy
import json
from typing import Any

import pytest
import tvm
from tvm import te, topi

from tests.client.conftest import MMRelu, record
from tilefarm import graph, module, trace
from tilefarm.errors import ModuleError, TraceError


def changed(**changes: Any) -> Any:
    """The record's trace with one instruction appended or one decision replaced."""
    found = copy.deepcopy(record()["trace"])
    if "instruction" in changes:
        found[0].append(changes["instruction"])
    if "decisions" in changes:
        found[1] = changes["decisions"]
    return found


def test_an_ordinary_trace_passes() -> None:
    trace.check(record()["trace"])


@pytest.mark.parametrize(
    ("instruction", "why"),
    [
        (["UnsafeSetDType", ["b0"], [0, "float16"], []], "kind"),
        (["Annotate", ["b0", '"x"'], ["pragma_import_llvm"], []], "annotation key"),
        (["Annotate", ["b0", 10**6], ["pragma_auto_unroll_max_step"], []], "without a bound"),
        (["SetScope", ["b0"], [0, "write", "../../etc"], []], "storage scope"),
        (["Tensorize", ["b0"], ["a b; c", True], []], "tensor intrinsic"),
        (["SampleCategorical", [], [[10**9], [1.0]], ["v0"]], "candidates"),
        (["GetSBlock", [], ["x" * 300, "main"], ["b9"]], "300 characters"),
        (["Split", [], [[[[[[[[[[1]]]]]]]]]], []], "too deep"),
        (["Fuse", ["l1"], [1]], "four parts"),
        ("Fuse", "four parts"),
    ],
)
def test_an_instruction_that_tuning_does_not_need_is_refused(instruction: Any, why: str) -> None:
    with pytest.raises(TraceError, match=why):
        trace.check(changed(instruction=instruction))


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
        trace.check(changed(decisions=decisions))


def test_a_categorical_decision_names_one_of_its_candidates() -> None:
    sample = ["SampleCategorical", [], [[0, 16], [0.5, 0.5]], ["v9"]]
    good = [[sample], [[0, 1]]]
    trace.check(good)
    for index in (2, -1, 1e9, True):
        with pytest.raises(TraceError, match="out of range"):
            trace.check([[sample], [[0, index]]])


def test_the_length_of_a_trace_is_bounded() -> None:
    fuse = ["Fuse", ["l1", "l2"], [1], ["l3"]]
    trace.check([[fuse] * 2000, []])
    with pytest.raises(TraceError, match="too long"):
        trace.check([[fuse] * 2001, []])


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
