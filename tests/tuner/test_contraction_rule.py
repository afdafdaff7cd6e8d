"""Our design spaces of contractions: right on odd shapes, feasible, replayed by stock TVM, searched."""

# ruff: noqa: N803, N805, N812  # TVMScript is not Python: its names are the paper's

import json
import subprocess
import sys
from functools import reduce

import ml_dtypes  # noqa: F401 - teaches numpy bfloat16
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tvm.script import ir as I
from tvm.script import tirx as T

from checks.space import named_space
from checks.trace import check_trace
from tests.tuner.driving import open_search, play
from tuner.module import canonical_module, save_module
from tuner.space.contraction import Contraction, grouped_axis
from tuner.space.contraction_rule import tiled
from tuner.space.finish_rule import is_ours
from tuner.space.plans import plans
from tuner.space.rules import with_ours
from tuner.space.tiling import tile as write_tile
from tuner.space.vectors import VectorUnit, best_tiles, register_tiles, vector_unit
from tuner.target import make_target
from tuner.trace import apply_trace, canonical_text
from tuner.tvm_light import load_tvm

tvm = load_tvm()
te = tvm.te

OURS, OURS_HASH = named_space("tilefarm")
AVX2 = VectorUnit(lanes=8, registers=16)
AVX512 = VectorUnit(lanes=16, registers=32)


def matmul(rows, columns, depth, *, transposed=False, epilogue=False):
    a = te.placeholder((rows, depth), name="A")
    b = te.placeholder((columns, depth) if transposed else (depth, columns), name="B")
    k = te.reduce_axis((0, depth), name="k")
    c = te.compute(
        (rows, columns), lambda i, j: te.sum(a[i, k] * (b[j, k] if transposed else b[k, j]), axis=k), name="C"
    )
    if not epilogue:
        return canonical_module(te.create_prim_func([a, b, c]))
    bias = te.placeholder((columns,), name="bias")
    d = te.compute((rows, columns), lambda i, j: te.max(c[i, j] + bias[j], te.const(0, "float32")), name="D")
    return canonical_module(te.create_prim_func([a, b, bias, d]))


def convolution(size, channels, filters, *, stride, padding, dilation, groups, nchw=False):
    from tvm import topi
    from tvm.s_tir.meta_schedule.testing import te_workload

    if nchw:
        x = te.placeholder((1, channels, size, size + 1), name="X")
        w = te.placeholder((filters, channels, 3, 3), name="W")
        return canonical_module(
            te.create_prim_func([x, w, topi.nn.conv2d_nchw(x, w, stride, padding, dilation)])
        )
    arguments = te_workload.conv2d_nhwc(
        1, size, size + 1, channels, filters, 3, stride, padding, dilation, groups
    )
    return canonical_module(te.create_prim_func(list(arguments)))


def spaces(mod, target):
    """Our schedules of the last block that reduces, before anything was sampled anew."""
    schedule = tvm.s_tir.Schedule(mod, debug_mask="none")
    root = schedule.get_sblock("root")
    (block,) = [b for b in schedule.get_child_blocks(root) if schedule.get(b).init is not None]
    return tiled(schedule, block, make_target(target))


def outputs(mod, target, arrays):
    tensors = [tvm.runtime.tensor(array) for array in arrays]
    tvm.compile(mod, make_target(target))["main"](*tensors)
    return tensors[-1].numpy()


def inputs(mod):
    generator = np.random.default_rng(0)
    return [
        generator.standard_normal([int(extent) for extent in p.ty.shape]).astype("float32")
        for p in mod["main"].params
    ]


def assert_same_numbers(mod, target, *, seed, at_most=2, found=None):
    """Of our spaces, with decisions drawn anew, against the untuned program; traces pass the check."""
    found = spaces(mod, target) if found is None else found
    assert found
    arrays = inputs(mod)
    expected = outputs(mod, target, arrays)
    rng = np.random.default_rng(seed)
    for place in rng.permutation(len(found))[:at_most]:
        instructions, _ = json.loads(canonical_text(found[place].trace))
        schedule = apply_trace([instructions, []], mod, rand_state=1 + seed)
        trace = json.loads(canonical_text(schedule.trace))
        check_trace(trace)
        got = outputs(schedule.mod, target, arrays)
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


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


@pytest.mark.parametrize(("rows", "columns", "n_forms"), [(1, 50, 2), (6, 33, 1), (17, 33, 0)])
def test_few_rows_that_lie_along_the_depth_are_dot_products_too(llvm, rows, columns, n_forms):
    mod = matmul(rows, columns, 64, transposed=True, epilogue=rows == 6)
    found = [schedule for schedule in spaces(mod, llvm) if "RFactor" in canonical_text(schedule.trace)]
    assert len(found) == n_forms
    arrays = inputs(mod)
    for schedule in found[:1]:
        check_trace(json.loads(canonical_text(schedule.trace)))
        got = outputs(schedule.mod, llvm, arrays)
        np.testing.assert_allclose(got, outputs(mod, llvm, arrays), rtol=1e-4, atol=1e-4)


def test_stocks_rules_are_those_that_tvm_chooses_for_the_target():
    """A product of bytes keeps its tensor intrinsic on a CPU that has one."""
    target = make_target({"kind": "llvm", "mcpu": "cascadelake", "num-cores": 2})
    a, b = te.placeholder((32, 64), "uint8", name="A"), te.placeholder((32, 64), "int8", name="B")
    k = te.reduce_axis((0, 64), name="k")
    c = te.compute(
        (32, 32), lambda i, j: te.sum(a[i, k].astype("int32") * b[j, k].astype("int32"), axis=k), name="C"
    )
    mod = canonical_module(te.create_prim_func([a, b, c]))
    context = tvm.s_tir.meta_schedule.TuneContext(
        mod=mod, target=target, space_generator=with_ours(target), search_strategy="replay-trace"
    )
    traces = [canonical_text(schedule.trace) for schedule in context.generate_design_space()]
    assert any("auto_tensorize" in trace for trace in traces)
    assert any("SSRSSRSS" in trace for trace in traces)


def test_a_gpu_keeps_tvms_own_rules():
    generator = with_ours(tvm.target.Target({"kind": "cuda", "arch": "sm_80"}))  # its intrinsics take long
    assert generator.sch_rules is None


def test_every_register_tile_fits_the_registers():
    for unit in (AVX2, AVX512):
        for tile in register_tiles(unit):
            vectors = tile.columns // unit.lanes
            assert tile.rows * vectors + min(tile.rows, vectors) + 1 <= unit.registers
            # Without AVX-512 each broadcast of a tile of one vector becomes the next sum.
            assert unit is AVX512 or vectors > 1 or 2 * tile.rows + 1 <= unit.registers
    assert best_tiles(register_tiles(AVX2), AVX2, rows=960, columns=960, count=1)[0].columns == 16


@pytest.mark.parametrize(
    ("cpu", "lanes", "registers"),
    [
        ({"mcpu": "x86-64"}, [4, 4, 4, 16], 16),
        ({"mcpu": "haswell"}, [8, 8, 8, 32], 16),
        ({"mcpu": "x86-64-v4"}, [16, 16, 16, 64], 32),
        ({"mcpu": "x86-64-v4", "mattr": ["-avx512f"]}, [8, 8, 8, 32], 16),
        ({"mcpu": "sapphirerapids"}, [16, 32, 16, 64], 32),
        ({"mcpu": "cortex-a72", "mtriple": "aarch64-linux-gnu"}, [4, 4, 4, 16], 32),
    ],
)
def test_a_vector_is_as_wide_as_the_cpu_has_it_and_halves_as_it_adds_them(cpu, lanes, registers):
    target = make_target({"kind": "llvm", "num-cores": 1, **cpu})
    units = [vector_unit(target, dtype) for dtype in ("float32", "float16", "bfloat16", "int8")]
    assert [unit.lanes for unit in units] == lanes
    assert {unit.registers for unit in units} == {registers}


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


def test_padding_is_weighed_against_the_tile():
    (tile,) = best_tiles(register_tiles(AVX512), AVX512, rows=49, columns=512, count=1)
    assert 49 % tile.rows == 0 or tile.padded((49, 512))[0] <= 50


def test_a_convolution_is_a_contraction_of_pixels_filters_and_taps():
    mod = convolution(8, 16, 32, stride=1, padding=1, dilation=1, groups=1)
    schedule = tvm.s_tir.Schedule(mod, debug_mask="none")
    block = schedule.get(schedule.get_sblock("conv2d_nhwc"))
    contraction = Contraction.of(block)
    assert contraction is not None
    assert contraction.extents == (8 * 9, 32, 3 * 3 * 16)
    assert not contraction.batch


def test_groups_are_found_in_the_indices():
    mod = convolution(8, 16, 32, stride=1, padding=1, dilation=1, groups=2)
    schedule = tvm.s_tir.Schedule(mod, debug_mask="none")
    assert grouped_axis(schedule.get(schedule.get_sblock("conv2d_nhwc"))) == (3, 16)


def test_what_is_no_contraction_is_left_alone(llvm):
    x = te.placeholder((64, 64), name="X")
    k = te.reduce_axis((0, 64), name="k")
    mod = canonical_module(te.create_prim_func([x, te.compute((64,), lambda i: te.sum(x[i, k], axis=k))]))
    assert spaces(mod, llvm) == []


def test_plans_pad_only_what_they_stage():
    mod = matmul(101, 100, 768)
    schedule = tvm.s_tir.Schedule(mod, debug_mask="none")
    contraction = Contraction.of(schedule.get(schedule.get_sblock("C")))
    assert contraction is not None
    for plan in plans(contraction, AVX512):
        pads = plan.tile.padded((101, 100)) != (101, 100)
        assert not pads or plan.scalars.value != "none"


def test_the_space_is_part_of_the_search_identity():
    assert named_space("stock") == named_space("post-order-apply")
    assert named_space("stock")[1] != OURS_HASH
    with pytest.raises(KeyError):
        named_space("mine")


def test_a_search_over_our_space_picks_among_stocks_and_our_variants_and_evolves_them(llvm):
    search = open_search("evolutionary", matmul(64, 64, 512, epilogue=True), llvm, space=OURS)
    batches = play(search, rounds=4, count=12)
    ours = [is_ours(apply_trace(c.trace, matmul(64, 64, 512, epilogue=True))) for b in batches for c in b]
    assert any(ours)
    assert not all(ours)
    assert all(len(batch) == 12 for batch in batches)
    later = [c.trace_hash for batch in batches[2:] for c in batch]
    assert len(set(later)) == len(later)


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


@pytest.mark.parametrize(("n_products", "at_least", "at_most"), [(2, 60, 200), (4, 82, 100)])
def test_the_plans_of_many_contractions_do_not_multiply(llvm, n_products, at_least, at_most):
    """Stock's tilings do: there are 81 of four products."""

    def product(a, b):
        k = te.reduce_axis((0, 32), name="k")
        return te.compute((32, 32), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")

    arguments = [te.placeholder((32, 32), name=f"W{number}") for number in range(n_products + 1)]
    mod = canonical_module(te.create_prim_func([*arguments, reduce(product, arguments)]))
    target = make_target(llvm)
    context = tvm.s_tir.meta_schedule.TuneContext(
        mod=mod, target=target, space_generator=with_ours(target), search_strategy="replay-trace"
    )
    found = context.generate_design_space()
    assert at_least <= len(found) <= at_most
    tiled_by = [canonical_text(schedule.trace).count("DecomposeReduction") for schedule in found]
    assert max(tiled_by) == n_products


def test_layout_free_weights_keep_stocks_rewriting_and_our_packing_apart(llvm):
    func = matmul(16, 64, 128, transposed=True)["main"].with_attr("layout_free_buffers", [1])
    mod = canonical_module(func)
    (batch,) = play(open_search("random", mod, llvm, space=OURS), rounds=1, count=12)
    names = [" ".join(i[0] for i in json.loads(candidate.trace)[0]) for candidate in batch]
    assert any("ReIndex" in name for name in names)


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
