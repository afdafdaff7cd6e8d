"""Our rules among stock's: one space, which a search draws from."""

import json
from functools import reduce

import pytest

from checks.space import named_space
from tests.tuner.contractions import assert_same_numbers, computed, matmul
from tests.tuner.driving import open_search, play
from tuner.module import canonical_module
from tuner.space.contraction_rule import tiled
from tuner.space.marks import is_ours
from tuner.space.offering import names_of
from tuner.space.rules import with_ours
from tuner.target import make_target
from tuner.trace import apply_trace, canonical_text
from tuner.tvm_light import load_tvm

tvm = load_tvm()
te = tvm.te

OURS, OURS_HASH = named_space("tilefarm")


def spanned(mod, target):
    """Schedules of our whole space, stock's among them, before postprocs."""
    context = tvm.s_tir.meta_schedule.TuneContext(
        mod=mod, target=target, space_generator=with_ours(target), search_strategy="replay-trace"
    )
    return context.generate_design_space()


def test_stocks_rules_are_those_that_tvm_chooses_for_the_target():
    """A product of bytes keeps its tensor intrinsic on a CPU that has one."""
    target = make_target({"kind": "llvm", "mcpu": "cascadelake", "num-cores": 2})
    a, b = te.placeholder((32, 64), "uint8", name="A"), te.placeholder((32, 64), "int8", name="B")
    k = te.reduce_axis((0, 64), name="k")
    c = te.compute(
        (32, 32), lambda i, j: te.sum(a[i, k].astype("int32") * b[j, k].astype("int32"), axis=k), name="C"
    )
    mod = canonical_module(te.create_prim_func([a, b, c]))
    traces = [canonical_text(schedule.trace) for schedule in spanned(mod, target)]
    assert any("auto_tensorize" in trace for trace in traces)
    assert any("SSRSSRSS" in trace for trace in traces)


def test_a_gpu_keeps_tvms_own_rules():
    generator = with_ours(tvm.target.Target({"kind": "cuda", "arch": "sm_80"}))  # its intrinsics take long
    assert generator.sch_rules is None


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


@pytest.mark.parametrize(("n_products", "at_least", "at_most"), [(2, 30, 60), (4, 82, 100)])
def test_the_plans_of_many_contractions_do_not_multiply(llvm, n_products, at_least, at_most):
    """Stock's tilings do: there are 81 of four products. Products are all ours or all stock's."""

    def product(a, b):
        k = te.reduce_axis((0, 32), name="k")
        return te.compute((32, 32), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")

    arguments = [te.placeholder((32, 32), name=f"W{number}") for number in range(n_products + 1)]
    mod = canonical_module(te.create_prim_func([*arguments, reduce(product, arguments)]))
    found = spanned(mod, make_target(llvm))
    assert at_least <= len(found) <= at_most
    tiled_by = [canonical_text(schedule.trace).count("DecomposeReduction") for schedule in found]
    assert set(tiled_by) == {0, n_products}


def attention(q, k, v):
    from tvm import topi

    return topi.nn.batch_matmul(topi.nn.softmax(topi.nn.batch_matmul(q, k)), v, transpose_b=False)


def norm_and_dense(x, g, b, w):
    from tvm import topi

    return topi.nn.dense(topi.nn.layer_norm(x, g, b, [1]), w)


@pytest.mark.parametrize(
    ("function", "shapes", "kept"),
    [
        (attention, [(3, 40, 32), (3, 50, 32), (3, 50, 24)], "T_softmax_norm"),
        (norm_and_dense, [(12, 64), (64,), (64,), (40, 64)], "T_layer_norm"),
    ],
)
def test_what_has_a_form_of_ours_in_one_space_is_left_to_stock_in_none_of_ours(llvm, function, shapes, kept):
    """With a softmax or a normalisation inlined into it a product has no form; kept apart it has no other."""
    found = spanned(computed(lambda _, *x: function(*x), *shapes), make_target(llvm))
    ours = [is_ours(schedule) for schedule in found]
    assert any(ours)
    assert not all(ours)
    tiled = ["SSRSRS" in canonical_text(schedule.trace) for schedule in found]
    assert any(tiled)
    assert not any(map(all, zip(ours, tiled, strict=True)))
    for_ours = [kept in names_of(schedule) for schedule in found]
    assert any(for_ours)
    assert all(is_of_ours for is_of_ours, is_kept in zip(ours, for_ours, strict=True) if is_kept)


def test_layout_free_weights_keep_stocks_rewriting_and_our_packing_apart(llvm):
    func = matmul(16, 64, 128, transposed=True)["main"].with_attr("layout_free_buffers", [1])
    mod = canonical_module(func)
    (batch,) = play(open_search("random", mod, llvm, space=OURS), rounds=1, count=12)
    names = [" ".join(i[0] for i in json.loads(candidate.trace)[0]) for candidate in batch]
    assert any("ReIndex" in name for name in names)


def gates(x, h, w, u):
    """An LSTM's: the activation reads two products."""
    from tvm import topi

    return topi.tanh(topi.add(topi.nn.dense(x, w), topi.nn.dense(h, u)))


def masked_softmax(x, mask):
    from tvm import topi

    return topi.nn.fast_softmax(topi.add(topi.multiply(x, 0.125), mask), 2)


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (gates, [(8, 64), (8, 64), (96, 64), (96, 64)]),
        (masked_softmax, [(2, 17, 50), (17, 50)]),
    ],
    ids=["gates", "masked softmax"],
)
def test_what_stocks_tiling_gives_up_has_stocks_programs_and_ours(llvm, function, shapes):
    arguments = [te.placeholder(shape, name=f"X{number}") for number, shape in enumerate(shapes)]
    mod = canonical_module(te.create_prim_func([*arguments, function(*arguments)]))
    found = list(spanned(mod, make_target(llvm)))
    assert {is_ours(schedule) for schedule in found} == {True, False}
    assert_same_numbers(mod, llvm, seed=3, at_most=4, found=[each for each in found if is_ours(each)][:6])
    assert_same_numbers(mod, llvm, seed=5, at_most=4, found=[each for each in found if not is_ours(each)])


def rectified(x, w):
    from tvm import topi

    return topi.nn.dense(topi.nn.relu(x), w)


def normalised(x, gamma, beta, w):
    from tvm import topi

    return topi.nn.dense(topi.nn.layer_norm(x, gamma, beta, [1]), w)


def scaled_weights(x, w, scale):
    from tvm import topi

    return topi.nn.dense(x, topi.multiply(w, topi.expand_dims(scale, 1)))


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (rectified, [(30, 64), (48, 64)]),
        (normalised, [(30, 64), (64,), (64,), (48, 64)]),
        (scaled_weights, [(30, 64), (48, 64), (48,)]),
    ],
)
def test_what_computes_an_operand_may_stand_by_itself(llvm, function, shapes):
    """Stock's programs have it inlined; with it computed once, the product has plans."""
    arguments = [te.placeholder(shape, name=f"X{number}") for number, shape in enumerate(shapes)]
    mod = canonical_module(te.create_prim_func([*arguments, function(*arguments)]))
    found = list(spanned(mod, make_target(llvm)))
    tiled = [each for each in found if is_ours(each) and "pad_einsum" not in str(each.trace)]
    assert len([each for each in tiled if str(each.trace).count("sample_perfect_tile") > 1]) >= 2
    assert_same_numbers(mod, llvm, seed=7, at_most=5, found=tiled)
    stocks = [each for each in found if not is_ours(each)]
    assert len({len(each.get_child_blocks(each.get_sblock("root"))) for each in stocks}) > 1


def test_an_operand_that_is_only_moved_is_inlined(llvm):
    """Contractions read through that, so nothing is offered twice."""

    def function(x, w):
        from tvm import topi

        return topi.nn.dense(topi.transpose(x), w)

    arguments = [
        te.placeholder(shape, name=f"X{number}") for number, shape in enumerate([(64, 30), (48, 64)])
    ]
    mod = canonical_module(te.create_prim_func([*arguments, function(*arguments)]))
    found = [each for each in spanned(mod, make_target(llvm)) if not is_ours(each)]
    assert len(found) == 3


def test_activations_between_many_products_do_not_multiply(llvm):
    from tvm import topi

    def layer(x, w):
        return topi.nn.relu(topi.nn.dense(x, w))

    arguments = [te.placeholder((32, 32), name=f"W{number}") for number in range(6)]
    mod = canonical_module(te.create_prim_func([*arguments, reduce(layer, arguments)]))
    assert len(spanned(mod, make_target(llvm))) < 1000  # stock's three sketches of each are 243 already


@pytest.mark.parametrize("size", [28, 56])
def test_no_seed_decides_which_forms_there_are(size):
    """A core's part of the rows may end within a line: what pads it then is of unknown extent."""
    from tvm import topi
    from tvm.s_tir.meta_schedule.testing import te_workload

    target = make_target({"kind": "llvm", "mcpu": "x86-64-v4", "num-cores": 2})
    data, weight, out = te_workload.conv2d_nhwc(1, size, size, size + 8, size + 8, 3, 1, 1)
    mod = canonical_module(te.create_prim_func([data, weight, topi.nn.relu(out)]))
    found = set()
    for seed in range(1, 9):
        schedule = tvm.s_tir.Schedule(mod, seed=seed, debug_mask="none")
        root = schedule.get_sblock("root")
        (block,) = [b for b in schedule.get_child_blocks(root) if schedule.get(b).init is not None]
        found.add(len(tiled(schedule, block, target)))
    assert len(found) == 1
