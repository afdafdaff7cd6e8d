"""Our design spaces of contractions: right on odd shapes, feasible, replayed by stock TVM, searched."""

# ruff: noqa: N803, N805, N812  # TVMScript is not Python: its names are the paper's

import json
import subprocess
import sys

import ml_dtypes  # noqa: F401 - teaches numpy bfloat16
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tvm.script import ir as I
from tvm.script import tirx as T

from checks.space import named_space
from checks.trace import check_trace
from tests.tuner.contractions import (
    AVX2,
    AVX512,
    assert_same_numbers,
    blocked_convolution,
    capsule_product,
    convolution,
    inputs,
    matmul,
    outputs,
    spaces,
)
from tests.tuner.driving import open_search, play
from tuner.module import canonical_module, save_module
from tuner.space import contraction_rule
from tuner.space.contraction import Contraction
from tuner.space.contraction_rule import tiled
from tuner.space.marks import is_ours
from tuner.space.plans import Padded, Staging, plans
from tuner.space.tiling import tile as write_tile
from tuner.target import make_target
from tuner.trace import apply_trace, canonical_text
from tuner.tvm_light import load_tvm

tvm = load_tvm()
te = tvm.te

OURS, _ = named_space("tilefarm")


sizes = st.sampled_from([1, 3, 7, 16, 33, 64])
few = settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


@few
@given(
    rows=sizes, columns=sizes, depth=st.sampled_from([1, 17, 64, 400]), transposed=st.booleans(),
    epilogue=st.booleans(), seed=st.integers(0, 99),
)  # fmt: skip
def test_matrix_products_of_odd_shapes_give_the_numbers_of_the_untuned_program(
    llvm, rows, columns, depth, transposed, epilogue, seed
):
    mod = matmul(rows, columns, depth, transposed=transposed, epilogue=epilogue)
    assert_same_numbers(mod, llvm, seed=seed)


@pytest.mark.parametrize(("cores", "some_keep_rows"), [(2, True), (64, False)])
def test_rows_go_over_the_cores_too_where_columns_do_not_keep_all_of_them_busy(cores, some_keep_rows):
    """512 columns are sixteen pieces at least: enough for two cores."""
    target = {"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": cores}
    found = [json.loads(canonical_text(each.trace))[1] for each in spaces(matmul(96, 512, 64), target)]
    loops_over_rows = {len(rows) for _, (_, rows) in found}
    assert loops_over_rows == ({2, 3} if some_keep_rows else {3})


def test_operands_that_are_only_moved_are_read_where_they_lie(llvm):
    """Heads behind positions, as attention has them: a copy packs both orders away, or none is made."""
    from tvm.s_tir.meta_schedule.testing import te_workload

    mod = canonical_module(te.create_prim_func(list(te_workload.transpose_batch_matmul(1, 24, 3, 32))))
    schedule = tvm.s_tir.Schedule(mod, debug_mask="none")
    (block,) = [
        each
        for each in schedule.get_child_blocks(schedule.get_sblock("root"))
        if schedule.get(each).init is not None
    ]
    found = tiled(schedule, block, make_target(llvm))
    assert found
    for each in found:
        names = [each.get(b).name_hint for b in each.get_child_blocks(each.get_sblock("root"))]
        assert not {"query_T", "value_T"}.intersection(names)
    assert_same_numbers(mod, llvm, seed=5, found=found, at_most=len(found))


@few
@given(
    size=st.sampled_from([5, 7, 14]), stride=st.integers(1, 2), padding=st.integers(0, 2),
    dilation=st.integers(1, 2), groups=st.sampled_from([1, 2]), seed=st.integers(0, 99),
)  # fmt: skip
def test_convolutions_strided_dilated_and_grouped_give_the_numbers_of_the_untuned_program(
    llvm, size, stride, padding, dilation, groups, seed
):
    mod = convolution(
        size, 8 * groups, 20 * groups, stride=stride, padding=padding, dilation=dilation, groups=groups
    )
    assert_same_numbers(mod, llvm, seed=seed)


def test_a_convolution_with_channels_first_gives_the_numbers_of_the_untuned_program(llvm):
    mod = convolution(7, 6, 10, stride=1, padding=1, dilation=1, groups=1, nchw=True)
    assert_same_numbers(mod, llvm, seed=3)


@pytest.mark.parametrize("nchw", [True, False])
def test_of_one_tap_every_plan_is_written(llvm, monkeypatch, nchw):
    """TVM forgets the axes of a single tap when it copies an image, and knows them when it copies filters."""

    def each(schedule, name, writes):
        copies = []
        for write in writes:
            copies.append(schedule.copy())
            write(copies[-1], copies[-1].get_sblock(name))
        return copies

    monkeypatch.setattr(contraction_rule, "written", each)
    shape = {"stride": 2, "padding": 1, "dilation": 1, "groups": 1}
    mod = convolution(27, 32, 48, kernel=1, nchw=nchw, relu=True, **shape)
    assert_same_numbers(mod, llvm, seed=7, at_most=3)


def test_with_channels_first_the_filters_may_be_the_vectors(llvm):
    """The image slides along its lines: packing it would repeat it; packed filters are read as they lie."""
    from tvm import topi

    x, w = te.placeholder((1, 5, 9, 6), name="X"), te.placeholder((20, 5, 3, 3), name="W")
    out = topi.nn.relu(topi.nn.conv2d_nchw(x, w, 1, 1, 1))
    mod = canonical_module(te.create_prim_func([x, w, out]))
    schedule = tvm.s_tir.Schedule(mod, debug_mask="none")
    root = schedule.get_sblock("root")
    (block,) = [b for b in schedule.get_child_blocks(root) if schedule.get(b).init is not None]
    straight, turned = (find(schedule.get(block)) for find in (Contraction.of, Contraction.turned))
    assert straight.vectors.slides
    assert turned.scalars.slides
    assert (straight.rows, straight.columns) == (turned.columns, turned.rows)
    assert not turned.writes_rows
    arrays = inputs(mod)
    expected = outputs(mod, llvm, arrays)
    name = schedule.get(block).name_hint
    for plan in plans(turned, AVX2)[:3]:
        candidate = schedule.copy()
        write_tile(candidate, candidate.get_sblock(name), turned, plan, lanes=AVX2.lanes, cores=2)
        check_trace(json.loads(canonical_text(candidate.trace)))
        np.testing.assert_allclose(outputs(candidate.mod, llvm, arrays), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtypes", [("float16",) * 2, ("bfloat16",) * 2, ("int8", "int32")])
def test_products_of_halves_and_of_bytes_give_the_numbers_of_the_untuned_program(llvm, dtypes):
    operand, result = dtypes
    a, b = (te.placeholder(shape, operand, name=name) for name, shape in (("A", (20, 48)), ("B", (48, 40))))
    k = te.reduce_axis((0, 48), name="k")
    c = te.compute(
        (20, 40), lambda i, j: te.sum(a[i, k].astype(result) * b[k, j].astype(result), axis=k), name="C"
    )
    mod = canonical_module(te.create_prim_func([a, b, c]))
    found = spaces(mod, llvm)
    generator = np.random.default_rng(0)
    arrays = [
        generator.integers(-3, 4, [int(extent) for extent in p.ty.shape]).astype(str(p.ty.dtype))
        for p in mod["main"].params
    ]
    expected = outputs(mod, llvm, arrays)
    assert found
    for schedule in found[:2]:
        np.testing.assert_array_equal(outputs(schedule.mod, llvm, arrays), expected)


def test_plans_pad_only_what_they_stage():
    mod = matmul(101, 100, 768)
    schedule = tvm.s_tir.Schedule(mod, debug_mask="none")
    contraction = Contraction.of(schedule.get(schedule.get_sblock("C")))
    assert contraction is not None
    for plan in plans(contraction, AVX512):
        assert plan.peels or 101 % plan.tile.rows == 0 or plan.scalars is not Staging.NONE
        assert 100 % plan.tile.columns == 0 or plan.vectors is not Staging.NONE


def test_padded_columns_leave_rows_where_they_lie(llvm):
    mod = matmul(48, 33, 64)
    found = [json.loads(canonical_text(each.trace)) for each in spaces(mod, llvm)]
    in_place = [
        trace for trace in found if "PadEinsum" in str(trace) and str(trace).count("'ComputeInline'") == 3
    ]
    assert in_place
    assert len(in_place) < len(found)


@I.ir_module
class RowsDepthColumns:
    """A product as it is written by hand, its depth outside of its columns."""

    @T.prim_func(s_tir=True)
    def main(
        A: T.Buffer((20, 24), "float32"), B: T.Buffer((24, 40), "float32"), C: T.Buffer((20, 40), "float32")
    ):
        for i, k, j in T.grid(20, 24, 40):
            with T.sblock("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


def test_a_product_may_have_its_loops_in_any_order(llvm):
    mod = canonical_module(RowsDepthColumns["main"])
    (batch,) = play(open_search("random", mod, llvm, space=OURS), rounds=1, count=6)
    schedules = [apply_trace(candidate.trace, mod) for candidate in batch]
    ours = [schedule for schedule in schedules if is_ours(schedule)]
    assert ours
    arrays = inputs(mod)
    for schedule in ours[:2]:
        got = outputs(schedule.mod, llvm, arrays)
        np.testing.assert_allclose(got, outputs(mod, llvm, arrays), rtol=1e-4, atol=1e-4)


REPLAY = """
import json, sys
import numpy as np, tvm
from tvm.s_tir import Schedule, Trace
order = json.load(open(sys.argv[1]))
mod = tvm.ir.load_json(order["module"])
for trace in order["traces"]:
    schedule = Schedule(mod)
    Trace.apply_json_to_schedule(trace, schedule)
    rng = np.random.default_rng(0)
    a, b = rng.random((33, 40), "float32"), rng.random((40, 50), "float32")
    c = tvm.runtime.tensor(np.zeros((33, 50), "float32"))
    tvm.compile(schedule.mod, tvm.target.Target(order["target"]))["main"](
        tvm.runtime.tensor(a), tvm.runtime.tensor(b), c
    )
    np.testing.assert_allclose(c.numpy(), a @ b, rtol=1e-4)
print(len(order["traces"]))
"""


def test_stock_tvm_replays_our_traces_in_a_fresh_process(llvm, tmp_path):
    mod = matmul(33, 50, 40)
    traces = [json.loads(canonical_text(schedule.trace)) for schedule in spaces(mod, llvm)[:3]]
    order = tmp_path / "order.json"
    order.write_text(json.dumps({"module": save_module(mod), "target": llvm, "traces": traces}))
    done = subprocess.run(
        [sys.executable, "-c", REPLAY, str(order)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == len(traces) > 0


@pytest.mark.parametrize(
    ("nchw", "groups", "filters"),
    [(False, 1, 32), (False, 2, 64), (True, 1, 32), (False, 1, 20), (True, 1, 20)],
)
def test_what_follows_a_tile_takes_no_more_than_the_tile(llvm, nchw, groups, filters):
    """Of rows that go on in the next line TVM has it take both lines: another core is summing these."""
    shape = {"stride": 1, "padding": 1, "dilation": 1, "groups": groups, "nchw": nchw}
    mod = convolution(14, 8 * groups, filters, relu=True, **shape)
    found = [json.loads(canonical_text(each.trace)) for each in spaces(mod, llvm)]
    assert found
    for seed, (instructions, _) in enumerate(found, start=1):
        schedule = apply_trace([instructions, []], mod, rand_state=seed * 7919)
        extents = [schedule.get(loop).extent for loop in schedule.get_loops(schedule.get_sblock("compute"))]
        assert all(isinstance(extent, tvm.tirx.IntImm) for extent in extents), schedule.mod.script()
    assert_same_numbers(mod, llvm, seed=filters, at_most=3)


def test_a_block_of_summed_channels_is_read_behind_the_window(llvm):
    """As the weights lie; (chunk, block, window) would step across them at each tap."""
    mod = blocked_convolution(6, 32, 16)
    found = spaces(mod, llvm)
    assert found
    unsplit = [schedule for schedule in found if "T.grid(2, 3, 3, 16" in schedule.mod.script()]
    assert unsplit
    assert_same_numbers(mod, llvm, seed=16, found=found, at_most=len(found))


@pytest.mark.parametrize(
    ("mod", "lanes"),
    [
        (matmul(24, 6, 40, epilogue=True), 6),
        (matmul(30, 28, 16), 7),
        (capsule_product(capsules=4, columns=6), 6),
        (convolution(13, 3, 10, stride=1, padding=1, dilation=1, groups=1, nchw=True, relu=True), 7),
        (convolution(13, 4, 12, stride=1, padding=2, dilation=2, groups=1, nchw=True), 7),
        (convolution(9, 16, 24, stride=1, padding=1, dilation=1, groups=4), 6),
    ],
)
def test_vectors_of_any_length_give_the_numbers_of_the_untuned_program(llvm, mod, lanes):
    """Columns are read where they lie, in vectors that are no power of two."""
    found = [schedule for schedule in spaces(mod, llvm) if f"T.vectorized({lanes})" in schedule.mod.script()]
    assert found
    assert_same_numbers(mod, llvm, seed=lanes, found=found, at_most=len(found))


@pytest.mark.parametrize(("stride", "filters", "times"), [(1, 3, 1), (1, 8, 2), (2, 3, 2)])
def test_few_filters_are_vectors_only_where_an_image_is_not_read_where_it_lies(
    llvm, monkeypatch, stride, filters, times
):
    """Pixels that lie a stride apart are no vector; three filters fill little of one."""
    asked, of = [], contraction_rule._plans
    monkeypatch.setattr(
        contraction_rule, "_plans", lambda *args, **others: asked.append(args[0]) or of(*args, **others)
    )
    shape = {"stride": stride, "padding": 1, "dilation": 1, "groups": 1, "nchw": True}
    assert spaces(convolution(15, 8, filters, **shape), llvm)
    assert len({each.vectors.read for each in asked}) == times


@pytest.mark.parametrize(("filters", "offered"), [(32, False), (48, True), (64, True)])
def test_groups_that_fill_little_of_a_vector_are_left_to_stock_and_to_planes(filters, offered):
    shape = {"stride": 1, "padding": 1, "dilation": 1, "groups": 8}
    avx512 = {"kind": "llvm", "mcpu": "znver4", "num-cores": 1}
    found = [canonical_text(each.trace) for each in spaces(convolution(14, 64, filters, **shape), avx512)]
    assert found
    assert any("CacheRead" not in text for text in found) is offered


@pytest.mark.parametrize(("images", "turns"), [(4, True), (64, False)])
def test_a_window_of_images_side_by_side_is_never_copied_element_by_element(llvm, images, turns):
    """Its columns are pixels and images. Few images leave vectors empty: then filters are the vectors."""
    x, w = te.placeholder((9, 9, 8, images), name="X"), te.placeholder((3, 3, 8, 32), name="W")
    p, q, i = (te.reduce_axis((0, extent), name=name) for extent, name in ((3, "p"), (3, "q"), (8, "i")))
    c = te.compute(
        (7, 7, 32, images),
        lambda y, z, o, n: te.sum(x[y + p, z + q, i, n] * w[p, q, i, o], axis=[p, q, i]),
        name="C",
    )
    mod = canonical_module(te.create_prim_func([x, w, c]))
    schedule = tvm.s_tir.Schedule(mod, debug_mask="none")
    block = schedule.get(schedule.get_sblock("C"))
    straight, turned = Contraction.of(block), Contraction.turned(block)
    assert straight.vectors.repeats
    assert not straight.vectors.slides
    unit = AVX512
    found = contraction_rule._plans(straight, unit, padded=Padded())
    assert found
    assert all(plan.vectors is Staging.NONE for _, plan in found)
    assert contraction_rule._is_worth_turning(straight, turned, unit, unit, found) is turns
    assert_same_numbers(mod, llvm, seed=11, at_most=3)
