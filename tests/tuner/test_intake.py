"""The intake child answers what a module, a target, a space or a trace is, and why it is refused."""

import json

import pytest

from tests.tuner.awkward_modules import (
    Blockless,
    Marked,
    Nameless,
    Offset,
    OneNameTwice,
    OverNothing,
    SaidToBeCompact,
    Scalar,
    Strided,
    Symbolic,
    TwoNames,
    Vectorised,
)
from tests.tuner.fakes import FakeChannel
from tuner.intake import answer, run
from tuner.tvm_light import load_tvm


def save(mod):
    return load_tvm().ir.save_json(mod)


def module_answer(mod, **more):
    return answer({"op": "module", "module": mod if isinstance(mod, str) else save(mod), **more})


def codes(reply):
    return [(error["code"], error["function"]) for error in reply["errors"]]


def test_each_classroom_module_is_one_workload_with_its_flops_and_arguments(classroom_json):
    found = {name: module_answer(text) for name, text in classroom_json.items()}
    assert all(not reply["errors"] and len(reply["functions"]) == 1 for reply in found.values())
    functions = {name: reply["functions"][0] for name, reply in found.items()}
    assert functions["mm"]["flops"] == 2 * 128**3
    assert functions["bmm_relu"]["flops"] == 16 * (2 * 128**3 + 128**2)
    assert functions["conv2d"]["flops"] == 2 * 2 * 6 * 6 * 3 * 3
    assert functions["linear0"]["name"] == "linear0"
    assert functions["linear0"]["args"] == [
        {"shape": [1, 784], "dtype": "float32"},
        {"shape": [128, 784], "dtype": "float32"},
        {"shape": [128], "dtype": "float32"},
        {"shape": [1, 128], "dtype": "float32"},
    ]
    assert {arg["dtype"] for arg in functions["broadcast_add"]["args"]} == {"int64"}
    assert len({function["shash"] for function in functions.values()}) == len(functions)
    assert all(len(function["shash"]) == 16 for function in functions.values())


def test_the_canonical_module_is_its_own_canonical_form_and_tells_no_path(classroom_json):
    for text in classroom_json.values():
        (function,) = module_answer(text)["functions"]
        (again,) = module_answer(function["module"])["functions"]
        assert "classroom.py" in text
        assert "ir.Span" not in function["module"]
        assert "classroom.py" not in function["module"]
        assert (again["name"], again["shash"], again["module"]) == (
            "main",
            function["shash"],
            function["module"],
        )


def test_functions_that_differ_only_in_names_and_attributes_are_one_workload():
    first, second = module_answer(TwoNames)["functions"]
    assert (first["name"], second["name"]) == ("first", "second")
    assert first["shash"] == second["shash"]
    assert answer({"op": "equal", "a": first["module"], "b": second["module"]}) == {"equal": True}


def test_two_workloads_are_not_equal(classroom_json):
    assert answer({"op": "equal", "a": classroom_json["mm"], "b": classroom_json["mm_relu"]}) == {
        "equal": False
    }


def test_a_function_without_noalias_is_accepted_with_a_warning():
    first, second = module_answer(TwoNames)["functions"]
    assert first["warnings"] == []
    assert [(warning["code"], warning["function"]) for warning in second["warnings"]] == [
        ("no_noalias", "second")
    ]


@pytest.mark.parametrize(
    ("mod", "code", "function"),
    [
        (Symbolic, "symbolic_shape", "dynamic"),
        (Marked, "already_scheduled", "done"),
        (Vectorised, "already_scheduled", "lanes"),
        (Blockless, "already_scheduled", "lowered"),
        (Scalar, "unsupported_dtype", "scaled"),
        (OneNameTwice, "bad_name", "twins"),
        (Nameless, "bad_name", "unnamed"),
        (OverNothing, "ill_formed", "empty"),
        (Strided, "unsupported_layout", "gaps"),
        (Offset, "unsupported_layout", "later"),
    ],
)
def test_an_error_names_the_function_and_the_cause(mod, code, function):
    reply = module_answer(mod)
    assert codes(reply) == [(code, function)]
    assert function in reply["errors"][0]["detail"]
    assert reply["functions"] == []


def test_a_name_that_a_schedule_finds_twice_is_told():
    detail = module_answer(OneNameTwice)["errors"][0]["detail"]
    assert "2 blocks with the name twin" in detail


@pytest.mark.parametrize(("length", "refused"), [(200, []), (201, [("bad_name", "main")])])
def test_a_block_has_a_name_that_a_trace_may_hold(classroom_json, length, refused):
    graph = json.loads(classroom_json["mm"])
    for block in [node["data"] for node in graph["nodes"] if node["type"] == "s_tir.SBlock"]:
        if graph["nodes"][block["name_hint"]]["data"] != "root":
            graph["nodes"][block["name_hint"]]["data"] = "C" * length
    assert codes(module_answer(json.dumps(graph))) == refused


def test_strides_that_say_what_is_so_anyway_are_accepted():
    assert codes(module_answer(SaidToBeCompact)) == []


@pytest.mark.parametrize(
    "text",
    [
        "not json",
        "{}",
        "[1]",
        '{"root_index":0,"nodes":[{"type":"None"}]}',
        '{"root_index":0,"nodes":[{"type":"ir.Nope","data":{}}]}',
        '{"root_index":1,"nodes":[{"type":"None"},{"type":"int","data":3}]}',
    ],
)
def test_what_is_not_an_irmodule_is_refused(text):
    assert codes(module_answer(text)) == [("not_an_ir_module", None)]


def test_a_module_without_functions_has_no_prim_func():
    assert codes(module_answer(load_tvm().IRModule({}))) == [("no_prim_func", None)]


def test_an_undefined_variable_is_ill_formed(classroom_json):
    obj = json.loads(classroom_json["mm"])
    loop = next(node for node in obj["nodes"] if node["type"] == "tirx.For")
    stranger = len(obj["nodes"])
    variable = obj["nodes"][loop["data"]["loop_var"]]
    obj["nodes"].append({"type": "ir.Var", "data": dict(variable["data"])})
    loop["data"]["loop_var"] = stranger
    assert codes(module_answer(json.dumps(obj))) == [("ill_formed", "main")]


def test_every_faulty_function_is_named_in_one_answer():
    tvm = load_tvm()
    mod = tvm.IRModule(
        {"dynamic": Symbolic["dynamic"], "lowered": Blockless["lowered"], "first": TwoNames["first"]}
    )
    assert codes(module_answer(mod)) == [("symbolic_shape", "dynamic"), ("already_scheduled", "lowered")]


def test_a_fitting_space_is_answered_in_canonical_form_with_its_hash(classroom_json, mm_space):
    (function,) = module_answer(classroom_json["mm"], spaces={"main": mm_space})["functions"]
    (stock,) = module_answer(classroom_json["mm"])["functions"]
    assert function["space"] == mm_space
    assert stock["space"] is None
    assert function["space_hash"] != stock["space_hash"]


@pytest.mark.parametrize(
    ("space", "words"),
    [
        ({"traces": []}, "one trace"),
        ({"traces": [[]]}, "instructions, decisions"),
        ({"traces": [[[["GetSBlock", [], ["Nope", "main"], ["b0"]]], []]]}, "trace 0"),
        ({"traces": [[[], []]], "postprocs": ["Nope"]}, "Nope"),
        ({"traces": [[[], []]], "mutators": {"MutateUnroll": 2}}, "between 0 and 1"),
    ],
)
def test_a_space_that_does_not_fit_is_refused_with_its_reason(classroom_json, space, words):
    reply = module_answer(classroom_json["mm"], spaces={"main": space})
    assert codes(reply) == [("bad_space", "main")]
    assert words in reply["errors"][0]["detail"]


def test_a_space_for_an_unknown_function_is_refused(classroom_json, mm_space):
    assert codes(module_answer(classroom_json["mm"], spaces={"other": mm_space})) == [("bad_space", "other")]


def test_a_trace_is_shown_as_python_and_script(classroom_json, mm_space):
    trace = json.dumps(mm_space["traces"][0])
    reply = answer({"op": "python", "module": classroom_json["mm"], "trace": trace})
    assert "sample_perfect_tile" in reply["trace_python"]
    assert "C_init" in reply["script"]
    assert "C_init" not in reply["untuned_script"]


def test_a_trace_that_does_not_apply_is_a_typed_error(classroom_json, mm_space):
    trace = json.dumps(mm_space["traces"][0])
    reply = answer({"op": "python", "module": classroom_json["conv2d"], "trace": trace})
    assert codes(reply) == [("bad_trace", None)]


def test_a_trace_with_the_intrinsics_of_another_device_applies():
    """A record of an AArch64 target that is imported on an x86 host."""
    te = load_tvm().te
    a, b = te.placeholder((4,), "int8", name="A"), te.placeholder((4, 4), "int8", name="B")
    k = te.reduce_axis((0, 4), name="k")
    c = te.compute((4,), lambda i: te.sum(a[k].astype("int32") * b[i, k].astype("int32"), axis=k), name="C")
    (function,) = module_answer(load_tvm().IRModule({"main": te.create_prim_func([a, b, c])}))["functions"]
    instructions = [
        ["GetSBlock", [], ["C", "main"], ["b0"]],
        ["GetLoops", ["b0"], [], ["l1", "l2"]],
        ["DecomposeReduction", ["b0", "l1"], [], ["b3"]],
        ["GetLoops", ["b0"], [], ["l4", "l5"]],
    ]
    traces = [
        json.dumps([[*instructions, ["Tensorize", ["l4"], [name, 1], []]], []])
        for name in ("dot_4x4_i8i8s32_neon", "dot_no_such_thing")
    ]
    applied, unknown = answer({"op": "applies", "module": function["module"], "traces": traces})["faults"]
    assert applied is None
    assert "dot_no_such_thing" in unknown


def test_what_fails_in_a_way_nobody_foresaw_is_an_answer_too(classroom_json):
    assert codes(module_answer(classroom_json["mm"], spaces=[1])) == [("intake_failed", None)]


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ({"kind": "llvm", "mcpu": "no-such-cpu", "num-cores": 2}, "unknown_mcpu"),
        ({"kind": "hexagon"}, "unknown_target"),
        ({"tag": "nvidia/no-such-gpu"}, "unknown_target"),
        ({"tag": "llvm"}, "unknown_target"),
    ],
)
def test_an_unknown_target_is_refused(target, code):
    assert [error["code"] for error in answer({"op": "target", "target": target})["errors"]] == [code]


def test_a_target_comes_back_in_canonical_form():
    asked = {
        "kind": "llvm",
        "mcpu": "x86-64-v3",
        "num-cores": 2,
        "keys": ["cpu"],
        "tag": "",
        "mattr": ["+fma", "+avx2"],
    }
    reply = answer({"op": "target", "target": asked})
    assert reply == {
        "canonical": {"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2, "mattr": ["+avx2", "+fma"]}
    }


def test_the_child_answers_until_the_channel_ends(classroom_json):
    channel = FakeChannel(
        {"op": "module", "module": classroom_json["mm"]}, {"op": "nonsense"}, {"op": "equal"}
    )
    run(channel)
    assert [codes(reply) for reply in channel.answers] == [
        [],
        [("bad_request", None)],
        [("bad_request", None)],
    ]
