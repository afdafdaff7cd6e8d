"""The first wall: every real module passes, every attack on TVM's loader is refused by name."""

import json

import pytest
import tvm
from tvm import te

import checks.graph
from checks.graph import GraphError, GraphLimits, check_module_json
from checks.graph_allowed import OPS
from tests.checks import modules


def refusal(graph, limits=None) -> GraphError:
    with pytest.raises(GraphError) as raised:
        check_module_json(graph, limits)
    return raised.value


def first(graph, node_type) -> int:
    return next(index for index, node in enumerate(graph["nodes"]) if node["type"] == node_type)


@pytest.mark.parametrize("name", modules.BUILDERS)
def test_a_real_module_passes(name):
    check_module_json(modules.graph(name))


def test_every_allowed_operator_is_one_that_tvm_knows():
    assert set(tvm.ir.Op.list_op_names()) >= OPS


def test_the_tasks_of_a_relax_model_pass():
    from tvm import relax
    from tvm.relax.frontend import nn

    class Mlp(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(64, 128), nn.Linear(128, 32)

        def forward(self, x):
            return self.second(nn.op.gelu(self.first(x)))

    module, _ = Mlp().export_tvm({"forward": {"x": nn.spec.Tensor((8, 64), "float32")}})
    fuse = tvm.transform.Sequential(
        [
            relax.transform.LegalizeOps(),
            relax.transform.AnnotateTIROpPattern(),
            relax.transform.FuseOps(),
            relax.transform.FuseTIR(),
        ]
    )
    with tvm.target.Target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2}):
        module = fuse(module)
    functions = {var: f for var, f in module.functions.items() if isinstance(f, tvm.tirx.PrimFunc)}
    assert len(functions) >= 2
    check_module_json(json.loads(tvm.ir.save_json(tvm.IRModule(functions))))


@pytest.mark.parametrize("value", [None, 3, "text", [], {}, {"nodes": {}}, {"nodes": [], "root_index": True}])
def test_what_is_no_graph_is_not_an_ir_module(value):
    assert refusal(value).code == "not_an_ir_module"


def test_a_root_that_is_no_module_is_not_an_ir_module():
    graph = modules.graph("matmul")
    graph["root_index"] = first(graph, "tirx.PrimFunc")
    assert refusal(graph).code == "not_an_ir_module"
    graph["root_index"] = len(graph["nodes"])
    assert refusal(graph).code == "not_an_ir_module"


def test_a_module_without_functions_has_no_prim_func():
    graph = json.loads(tvm.ir.save_json(tvm.IRModule({})))
    assert refusal(graph).code == "no_prim_func"


@pytest.mark.parametrize(
    "node_type",
    [
        *("ffi.Function", "ffi.Object", "ffi.Error", "ffi.OpaquePyObject", "ffi.Module"),
        *("tirx.While", "tirx.AttrStmt", "tirx.AssertStmt", "relax.VDevice", "ffi.Dict", "ir.Source"),
    ],
)
def test_a_node_type_off_the_list_is_refused(node_type):
    graph = modules.graph("matmul_relu")
    victim = first(graph, "tirx.SeqStmt")
    graph["nodes"][victim] = {"type": node_type, "data": {}}
    error = refusal(graph)
    assert (error.code, error.node, error.function) == ("disallowed_node", victim, "main")


@pytest.mark.parametrize(
    "op",
    [
        *("tirx.call_extern", "tirx.call_pure_extern", "tirx.tvm_call_packed", "tirx.call_llvm_intrin"),
        *("tirx.address_of", "tirx.cuda.func_call", "tirx.tvm_access_ptr", "system"),
    ],
)
def test_an_operator_off_the_list_is_refused(op):
    graph = modules.graph("sigmoid")
    graph["nodes"][first(graph, "ir.Op")]["data"] = op
    assert refusal(graph).code == "disallowed_op"


@pytest.mark.parametrize("dtype", ["handle", "int64", "bool"])
def test_a_reinterpretation_is_of_a_number_for_another_of_as_many_bits(dtype):
    """A pointer would come of it, or a failed assertion of LLVM's."""
    graph = modules.graph("fast_softmax")
    nodes = graph["nodes"]
    op = next(index for index, node in enumerate(nodes) if node.get("data") == "tirx.reinterpret")
    call = next(node for node in nodes if node["type"] == "ir.Call" and node["data"]["op"] == op)
    other = next(
        index
        for index, node in enumerate(nodes)
        if node["type"] == "ir.PrimType" and node["data"]["dtype"] == "bool"
    )
    nodes[other]["data"]["dtype"] = dtype
    call["data"]["ty"] = other
    assert "as many bits" in refusal(graph).detail


def test_the_function_at_fault_is_named_among_several():
    graph = modules.graph("tvmscript")
    ops = [index for index, node in enumerate(graph["nodes"]) if node["type"] == "ir.Op"]
    graph["nodes"][ops[0]]["data"] = "tirx.call_extern"
    assert refusal(graph).function == "first"
    graph = modules.graph("tvmscript")
    loops = [index for index, node in enumerate(graph["nodes"]) if node["type"] == "tirx.For"]
    graph["nodes"][loops[-1]]["data"]["kind"] = 99
    assert refusal(graph).function == "second"


@pytest.mark.parametrize("name", ["pragma_import_llvm", "pragma_import_c", "external_mods", "tirx.kernel"])
def test_an_attribute_off_the_list_is_refused(name):
    graph = modules.graph("matmul")
    key = next(i for i, node in enumerate(graph["nodes"]) if node.get("data") == "tirx.noalias")
    graph["nodes"][key]["data"] = name
    error = refusal(graph)
    assert error.code == "disallowed_attribute"
    assert name in error.detail


def test_a_schedule_rule_of_the_senders_choice_is_refused():
    graph = modules.graph("max_pool")
    rule = next(i for i, node in enumerate(graph["nodes"]) if node.get("data") == "meta_schedule.pool_max")
    graph["nodes"][rule]["data"] = "rpc.CreatePipeClient"
    assert refusal(graph).code == "disallowed_attribute"


def test_a_cycle_and_a_forward_reference_are_refused():
    for offset in (0, 1):
        graph = modules.graph("matmul")
        victim = first(graph, "ffi.Array")
        graph["nodes"][victim]["data"] = [victim + offset]
        error = refusal(graph)
        assert (error.code, error.node) == ("bad_reference", victim)


@pytest.mark.parametrize("value", [-1, True, 1.0, "0", None, 10**30])
def test_what_is_no_index_is_refused_as_a_reference(value):
    graph = modules.graph("matmul")
    graph["nodes"][first(graph, "ir.GlobalVar")]["data"]["name_hint"] = value
    assert refusal(graph).code == "bad_reference"


def test_shared_nodes_that_unfold_without_end_are_refused_at_once():
    nodes = [{"type": "ffi.Array", "data": []}]
    nodes += [{"type": "ffi.Array", "data": [i, i]} for i in range(60)]
    assert refusal({"nodes": nodes, "root_index": 60}).code == "too_many_paths"


def test_shared_containers_of_several_sorts_do_not_grow_what_is_known_of_them():
    nodes = [{"type": "int", "data": 1}, {"type": "ffi.String", "data": "a"}]
    nodes += [{"type": "ffi.Array", "data": [0]}, {"type": "ffi.Array", "data": [1]}]
    for _ in range(12):
        both = [len(nodes) - 2, len(nodes) - 1]
        nodes += [{"type": "ffi.Array", "data": both}, {"type": "ffi.Array", "data": [*both, 0]}]
    error = refusal({"nodes": nodes, "root_index": len(nodes) - 1})
    assert (error.code, "too many kinds" in error.detail) == ("bad_field", True)


def test_annotations_that_many_nodes_share_are_looked_at_once(monkeypatch):
    looked_at = []
    annotations = [{"type": "ffi.String", "data": "axis"}, {"type": "int", "data": 1}]
    nodes = [*annotations, {"type": "ffi.Map", "data": [0, 1]}]
    nodes += [{"type": "ir.DictAttrs", "data": {"__dict__": 2}} for _ in range(50)]

    def note(_check, value, wanted):
        looked_at.append((value, wanted))
        return True

    monkeypatch.setattr(checks.graph._Check, "_annotation_fits", note)
    assert refusal({"nodes": nodes, "root_index": 3}).code == "not_an_ir_module"
    assert looked_at == [(1, "integer")]


def test_a_chain_of_two_thousand_expressions_is_refused():
    a = te.placeholder((8,), name="A")

    def chain(i):
        total = a[i]
        for _ in range(1000):
            total = te.exp(total + 1.0)
        return total

    module = tvm.IRModule({"main": te.create_prim_func([a, te.compute((8,), chain)])})
    error = refusal(json.loads(tvm.ir.save_json(module)))
    assert (error.code, error.function) == ("too_deep", "main")


def test_more_nodes_than_allowed_are_refused():
    graph = modules.graph("matmul")
    assert refusal(graph, GraphLimits(max_nodes=len(graph["nodes"]) - 1)).code == "too_many_nodes"


def test_a_field_of_another_sort_is_refused():
    graph = modules.graph("matmul")
    graph["nodes"][first(graph, "tirx.PrimFunc")]["data"]["body"] = first(graph, "ir.IntImm")
    assert refusal(graph).code == "bad_field"


def test_a_missing_and_an_unknown_field_are_refused():
    graph = modules.graph("matmul")
    graph["nodes"][first(graph, "tirx.For")]["data"].pop("kind")
    assert refusal(graph).code == "bad_field"
    graph = modules.graph("matmul")
    graph["nodes"][first(graph, "tirx.For")]["data"]["more"] = 0
    assert refusal(graph).code == "bad_field"


def test_a_symbolic_shape_is_named_with_its_function():
    n = te.var("n", "int64")
    a = te.placeholder((n,), name="A")
    function = te.create_prim_func([a, te.compute((n,), lambda i: a[i] + 1.0)])
    error = refusal(json.loads(tvm.ir.save_json(tvm.IRModule({"add_one": function}))))
    assert (error.code, error.function) == ("symbolic_shape", "add_one")


@pytest.mark.parametrize(("size", "code"), [(0, "bad_shape"), (-4, "bad_shape"), (2**31, "bad_shape")])
def test_a_dimension_out_of_range_is_refused(size, code):
    graph = modules.graph("matmul")
    extent = next(i for i, node in enumerate(graph["nodes"]) if node == {"type": "int", "data": 128})
    graph["nodes"][extent]["data"] = size
    assert refusal(graph).code == code


def test_a_buffer_of_four_tebibytes_is_refused():
    a = te.placeholder((1 << 20, 1 << 20), name="A")
    function = te.create_prim_func([a, te.compute(a.shape, lambda i, j: a[i, j] + 1.0)])
    assert refusal(json.loads(tvm.ir.save_json(tvm.IRModule({"main": function})))).code == "too_large"


@pytest.mark.parametrize("dtype", ["float4_e2m1fn", "float32x4", "int4", "custom[x]32", "handle"])
def test_a_dtype_that_cannot_be_filled_is_refused(dtype):
    graph = modules.graph("matmul")
    victim = next(node for node in graph["nodes"] if node.get("data") == {"span": 0, "dtype": "float32"})
    victim["data"]["dtype"] = dtype
    assert refusal(graph).code == "unsupported_dtype"


def test_a_scheduled_function_is_refused_as_such():
    schedule = tvm.s_tir.Schedule(modules.module("matmul"))
    schedule.bind(schedule.get_loops(schedule.get_sblock("C"))[0], "blockIdx.x")
    assert refusal(json.loads(tvm.ir.save_json(schedule.mod))).code == "already_scheduled"
    module = tvm.IRModule({"main": modules.module("matmul")["main"].with_attr("tirx.is_scheduled", True)})
    assert refusal(json.loads(tvm.ir.save_json(module))).code == "already_scheduled"


@pytest.mark.parametrize("name", ['x"; system("id', "x\ny", "x" * 301, "x{}", "é"])
def test_a_name_that_could_leave_its_place_is_refused(name):
    graph = modules.graph("matmul")
    victim = next(node for node in graph["nodes"] if node.get("data") == "A")
    victim["data"] = name
    assert refusal(graph).code == "bad_name"


def test_a_refusal_quotes_a_bounded_part_of_what_was_sent():
    graph = modules.graph("matmul")
    graph["nodes"][5]["type"] = "x" * 100_000
    assert len(refusal(graph).detail) < 200
