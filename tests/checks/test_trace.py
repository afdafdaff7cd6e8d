"""The fifth wall: the traces of the stock spaces pass, hostile ones are refused."""

import copy
import json

import pytest
import tvm
from tvm.s_tir import Schedule
from tvm.s_tir.meta_schedule.tune_context import TuneContext

from checks.trace import MAX_BLOCKS, MAX_INSTRUCTIONS, MAX_LOOPS, TraceError, check_trace
from tests.checks import modules
from tuner.tvm_light import load_tvm


def plain(value):
    """TVM's containers and numbers as Python's."""
    if isinstance(value, (list, tuple)) or type(value).__name__ == "Array":
        return [plain(item) for item in value]
    return value.value if type(value).__name__ in ("IntImm", "FloatImm") else value


def space_of(name) -> list:
    load_tvm()  # without the intrinsics of other targets, which take ten seconds to parse
    context = TuneContext(
        mod=modules.module(name),
        target=tvm.target.Target({"kind": "llvm", "mcpu": "x86-64-v4", "num-cores": 2}),
        space_generator="post-order-apply",
        search_strategy="evolutionary",
        task_name="main",
        num_threads=1,
        rand_state=1,
    )
    return [plain(schedule.trace.as_json()) for schedule in context.generate_design_space()]


@pytest.fixture(scope="module")
def softmax():
    return space_of("softmax")


@pytest.fixture
def trace():
    """A hand-written stochastic schedule of a matmul."""
    schedule = Schedule(modules.module("matmul"), seed=1)
    block = schedule.get_sblock("C")
    i, j, k = schedule.get_loops(block)
    tiles = schedule.sample_perfect_tile(j, n=2, max_innermost_factor=16)
    j0, j1 = schedule.split(j, factors=tiles)
    schedule.reorder(i, j0, k, j1)
    step = schedule.sample_categorical([0, 16, 64], [0.3, 0.3, 0.4])
    schedule.annotate(i, "pragma_auto_unroll_max_step", step)
    schedule.annotate(block, "meta_schedule.tiling_structure", "SRS")
    schedule.parallel(i)
    schedule.transform_layout(block, ("read", 1), lambda a, b: (b // 32, a, b % 32))
    return plain(schedule.trace.as_json())


def refusal(trace) -> str:
    with pytest.raises(TraceError) as raised:
        check_trace(trace)
    assert raised.value.code == "bad_trace"
    return raised.value.detail


def index_of(trace, kind) -> int:
    return next(index for index, instruction in enumerate(trace[0]) if instruction[0] == kind)


def test_the_stock_cpu_spaces_pass(softmax):
    assert len(softmax) >= 5
    for trace in (*softmax, *space_of("matmul_relu")):
        check_trace(trace)


def test_a_hand_written_schedule_passes(trace):
    check_trace(trace)


def test_an_empty_trace_passes():
    check_trace([[], []])


@pytest.mark.parametrize("kind", ["UnsafeSetDType", "AddUnitLoop", "ReadAt", "annotate", None])
def test_an_instruction_off_the_list_is_refused_with_its_place(trace, kind):
    trace[0][2][0] = kind
    assert refusal(trace).startswith("instruction 2:")


@pytest.mark.parametrize("key", ["pragma_import_llvm", "pragma_import_c", "schedule_rule"])
def test_an_annotation_off_the_list_is_refused(trace, key):
    trace[0][index_of(trace, "Annotate")][2] = [key]
    refusal(trace)


@pytest.mark.parametrize("steps", [1025, 1_000_000, -2, '"64"', "v99", [64], 1.5])
def test_an_unroll_step_out_of_range_is_refused(trace, steps):
    trace[0][index_of(trace, "Annotate")][1][1] = steps
    assert "pragma_auto_unroll_max_step" in refusal(trace)


def test_an_unroll_step_drawn_out_of_range_is_refused(trace):
    trace[0][index_of(trace, "SampleCategorical")][2][0][2] = 1_000_000
    assert "pragma_auto_unroll_max_step" in refusal(trace)


@pytest.mark.parametrize("decision", [3, -1, 1_000_000_000, True, [0], "0", None])
def test_a_categorical_decision_out_of_range_is_refused(trace, decision):
    place = index_of(trace, "SampleCategorical")
    trace[1] = [[place, decision]]
    refusal(trace)


@pytest.mark.parametrize("decision", [[64], [4, 32], [0, 8], [16, 8, 1], 8, [2**40, 1]])
def test_a_tile_decision_that_does_not_fit_is_refused(trace, decision):
    place = index_of(trace, "SamplePerfectTile")
    trace[1] = [[place, decision]]
    refusal(trace)


@pytest.mark.parametrize("factor", [0, -2])
def test_a_tile_whose_innermost_factor_has_no_bound_to_keep_is_refused(trace, factor):
    """With 0 TVM would draw for ever; -1 says that any will do."""
    place = index_of(trace, "SamplePerfectTile")
    trace[0][place][2][1], trace[1] = -1, []
    check_trace(trace)
    trace[0][place][2][1] = factor
    refusal(trace)


def test_a_decision_is_made_once_and_for_a_sampling_instruction(trace):
    place = index_of(trace, "SampleCategorical")
    trace[1] = [[place, 0], [place, 1]]
    refusal(trace)
    trace[1] = [[0, 0]]
    refusal(trace)
    trace[1] = [[len(trace[0]), 0]]
    refusal(trace)


def test_a_variable_is_used_after_it_is_defined_and_defined_once(trace):
    late = copy.deepcopy(trace)
    late[0][1][1] = ["b77"]
    refusal(late)
    twice = copy.deepcopy(trace)
    twice[0].append(twice[0][0])
    refusal(twice)


def test_scopes_threads_and_intrinsics_come_from_lists():
    for instruction in (
        ["SetScope", ["b0"], [0, "host"], []],
        ["Bind", ["b0"], ["blockIdx.w"], []],
        ["Tensorize", ["b0"], ["rpc.CreatePipeClient", 0], []],
        ["CacheRead", ["b0", []], [0, "texture"], ["b1"]],
    ):
        refusal([[["GetSBlock", [], ["C", "main"], ["b0"]], instruction], []])


def test_an_index_map_must_be_affine(trace):
    place = index_of(trace, "TransformLayout")
    text = trace[0][place][1][1]
    trace[0][place][1][1] = text.replace("prim.FloorDiv", "prim.Div")
    assert "affine" in refusal(trace)
    graph = json.loads(text)
    product = next(node for node in graph["nodes"] if node["type"] == "prim.FloorDiv")
    product["data"]["b"] = product["data"]["a"]
    trace[0][place][1][1] = json.dumps(graph)
    assert "affine" in refusal(trace)
    graph["nodes"].insert(1, {"type": "ffi.Function", "data": "system"})
    trace[0][place][1][1] = json.dumps(graph)
    refusal(trace)
    trace[0][place][1][1] = "[" * 5000
    refusal(trace)


def test_an_index_map_of_more_dimensions_than_any_buffer_has_is_refused(trace):
    """Whether an inverse leads back would be tried along each of them, at points of so many numbers."""
    place = index_of(trace, "TransformLayout")
    graph = json.loads(trace[0][place][1][1])
    indices = graph["nodes"][graph["root_index"]]["data"]["initial_indices"]
    graph["nodes"][indices]["data"] *= 40
    trace[0][place][1][1] = json.dumps(graph)
    assert "affine" in refusal(trace)


def test_sizes_are_bounded(trace):
    many = [["EnterPostproc", [], [], []]] * (MAX_INSTRUCTIONS + 1)
    assert str(MAX_INSTRUCTIONS) in refusal([many, []])
    long = copy.deepcopy(trace)
    long[0][0][2][0] = "x" * 257
    refusal(long)
    reorder = ["Reorder", ["b0"] * 100_000, [], []]
    assert "longer" in refusal([[["GetSBlock", [], ["C", "main"], ["b0"]], reorder], []])


def test_what_a_trace_makes_is_bounded():
    """TVM took minutes for two thousand loops in one another."""
    start = ["GetSBlock", [], ["C", "main"], ["b0"]], ["GetLoops", ["b0"], [], ["l0"]]
    split = [
        ["Split", [f"l{n}", 1, 1], [1, 0], [f"l{1000 + n}", f"l{n + 1}"]] for n in range(MAX_LOOPS // 2 + 1)
    ]
    check_trace([[*start, *split[:-1]], []])
    assert str(MAX_LOOPS) in refusal([[*start, *split], []])
    read = [["CacheRead", ["b0", []], [0, "global"], [f"b{n + 1}"]] for n in range(MAX_BLOCKS + 1)]
    check_trace([[*start, *read[:-1]], []])
    assert str(MAX_BLOCKS) in refusal([[*start, *read], []])


@pytest.mark.parametrize("value", [None, {}, [], [[]], [[], [], []], [{}, []], "text", [[1], []], [[[]], []]])
def test_what_is_no_trace_is_refused(value):
    refusal(value)


def test_numbers_that_are_not_json_are_refused():
    trace = [[["SampleCategorical", [], [[1], [float("nan")]], ["v0"]]], []]
    refusal(trace)
