"""A saved module with one node for equal values: the module that it loads is the same in every respect."""

import json

import pytest
import tvm
import tvm_ffi

from checks.graph import check_module_json
from tests.checks import modules
from tests.workers.author import searched
from tuner import module, shared_nodes
from tuner.trace import apply_trace


def saved(name: str) -> tuple[object, dict, str]:
    """The canonical module, its JSON as TVM saves it, and as we do."""
    mod = module.canonical_module(modules.module(name)["main"])
    return mod, json.loads(tvm.ir.save_json(mod)), module.save_module(mod)


@pytest.mark.parametrize("name", ["matmul_relu", "dense_layout_free"])
def test_an_equal_module_in_fewer_nodes(name: str) -> None:
    mod, graph, text = saved(name)
    again = module.load_text(text)
    assert tvm_ffi.structural_equal(again, mod)
    assert module.structural_hash(again) == module.structural_hash(mod)
    assert len(json.loads(text)["nodes"]) < 0.8 * len(graph["nodes"])
    check_module_json(json.loads(text))
    assert module.save_module(again) == text


def test_it_is_scheduled_as_the_other_is() -> None:
    mod, _, text = saved("dense_layout_free")
    for trace in searched(mod, count=3):
        ours, theirs = apply_trace(trace, module.load_text(text)).mod, apply_trace(trace, mod).mod
        assert tvm_ffi.structural_equal(ours, theirs)
        assert not tvm_ffi.structural_equal(ours, mod)


def test_values_that_only_look_equal_stay_apart() -> None:
    values = [
        ("float", 0.0),
        ("float", -0.0),
        ("float", 1.0),
        ("int", 1),
        ("bool", True),
        ("ffi.String", "1"),
    ]
    nodes = [{"type": kind, "data": data} for kind, data in [*values, *values]]
    array = {"type": "ffi.Array", "data": list(range(len(nodes)))}
    found = shared_nodes.shared({"nodes": [*nodes, array], "root_index": len(nodes)})["nodes"]
    assert [repr(node) for node in found[:-1]] == [repr(node) for node in nodes[: len(values)]]
    assert found[-1]["data"] == [*range(len(values)), *range(len(values))]


def test_what_is_itself_is_never_shared() -> None:
    graph = json.loads(saved("matmul_relu")[2])
    for kind in ("ir.Var", "tirx.IterVar", "tirx.For", "s_tir.SBlock", "tirx.BufferType"):
        assert kind not in shared_nodes._VALUES
    loops = [node for node in graph["nodes"] if node["type"] == "tirx.For"]
    assert len({loop["data"]["loop_var"] for loop in loops}) == len(loops)


def test_source_locations_and_what_nothing_names_are_dropped() -> None:
    _, graph, text = saved("matmul_relu")
    spans = [
        {"type": "ffi.String", "data": "/home/somebody/model.py"},
        {"type": "ir.SourceName", "data": "/home/somebody/model.py"},
    ]
    place = len(graph["nodes"])
    span = {"source_name": place + 1, "line": 1, "column": 1, "end_line": 1, "end_column": 2}
    nodes = [*graph["nodes"], *spans, {"type": "ir.Span", "data": span}]
    root = {**nodes[graph["root_index"]]}
    found = shared_nodes.shared({**graph, "nodes": [*nodes, root], "root_index": len(nodes)})
    assert "somebody" not in json.dumps(found)
    assert json.dumps(found, separators=(",", ":")) == text


def test_a_graph_with_an_unknown_node_is_saved_as_before() -> None:
    mod = tvm.IRModule({"main": tvm.tirx.PrimFunc([], tvm.tirx.Evaluate(tvm.tirx.Ramp(0, 1, 4)))})
    graph = json.loads(tvm.ir.save_json(mod))
    assert not shared_nodes.knows(graph)
    assert tvm_ffi.structural_equal(module.load_text(module.save_module(mod)), mod)
