"""Products of an operand with itself, whose two reads TVM does not tell apart."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.tuner.contractions import assert_same_numbers, spaces
from tuner.module import canonical_module
from tuner.space.contraction import Contraction
from tuner.trace import canonical_text
from tuner.tvm_light import load_tvm

tvm = load_tvm()
te = tvm.te


def gram(shape, *, depth, batch=(), epilogue=False):
    """Sums over these dimensions, for each of the batch's, of all pairs of the rest."""
    x = te.placeholder(shape, name="X")
    sums = {at: te.reduce_axis((0, shape[at]), name=f"k{at}") for at in depth}
    rows = [at for at in range(len(shape)) if at not in (*depth, *batch)]
    extents = [shape[at] for at in (*batch, *rows, *rows)]

    def element(of_batch, of_rows):
        known = dict(zip((*batch, *rows), (*of_batch, *of_rows), strict=True)) | sums
        return x[tuple(known[at] for at in range(len(shape)))]

    def product(*places):
        first = len(batch)
        of_batch, left, right = (
            places[:first],
            places[first : first + len(rows)],
            places[first + len(rows) :],
        )
        return te.sum(element(of_batch, left) * element(of_batch, right), axis=list(sums.values()))

    c = te.compute(extents, product, name="C")
    if not epilogue:
        return canonical_module(te.create_prim_func([x, c]))
    d = te.compute(extents, lambda *at: c(*at) * te.const(0.5, "float32"), name="D")
    return canonical_module(te.create_prim_func([x, d]))


@pytest.mark.parametrize(
    ("shape", "kinds"),
    [
        ((80, 48), {"depth": (0,)}),  # of columns, as a covariance
        ((48, 80), {"depth": (1,)}),  # of rows
        ((48, 300), {"depth": (1,), "epilogue": True}),
        ((3, 32, 7, 6), {"depth": (2, 3), "batch": (0,)}),  # of channels, the sum over an image
        ((3, 7, 6, 32), {"depth": (1, 2), "batch": (0,)}),
        ((4, 20, 3, 16), {"depth": (1,), "batch": (0,)}),  # rows of two axes
        ((70, 50), {"depth": (0,)}),  # no whole vectors of sixteen or of eight
        ((300, 50), {"depth": (0,), "epilogue": True}),
        ((6, 512), {"depth": (1,)}),  # dot products too
    ],
)
def test_a_product_with_itself_gives_the_numbers_of_the_untuned_program(llvm, shape, kinds):
    assert_same_numbers(gram(shape, **kinds), llvm, seed=3, at_most=3)


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(
    batch=st.integers(1, 3), rows=st.sampled_from([2, 4, 9, 24, 33, 40, 62, 100]),
    depth=st.sampled_from([1, 7, 64, 300]), lies_along=st.booleans(), epilogue=st.booleans(),
    seed=st.integers(0, 99),
)  # fmt: skip
def test_of_any_extents_whatever_forms_there_are_give_these_numbers(
    llvm, batch, rows, depth, lies_along, epilogue, seed
):
    shape, summed = ((batch, rows, depth), 2) if lies_along else ((batch, depth, rows), 1)
    mod = gram(shape, depth=(summed,), batch=(0,), epilogue=epilogue)
    found = spaces(mod, llvm)
    if found:
        assert_same_numbers(mod, llvm, seed=seed, found=found, at_most=2)


def test_both_operands_are_known_to_be_one():
    for mod, of_itself in ((gram((80, 48), depth=(0,)), True), (product_with_its_transpose(), False)):
        schedule = tvm.s_tir.Schedule(mod, debug_mask="none")
        assert Contraction.of(schedule.get(schedule.get_sblock("C"))).of_itself is of_itself


@pytest.mark.parametrize("depth", [0, 1])
def test_it_is_copied_once_and_only_where_it_lies_along_the_depth(llvm, depth):
    found = spaces(gram((96, 96), depth=(depth,)), llvm)
    assert found
    for schedule in found:
        text = canonical_text(schedule.trace)
        assert "ReIndex" not in text
        assert text.count("CacheRead") == depth


def test_what_no_vectors_make_up_is_left_to_stock(llvm):
    assert spaces(gram((60, 47), depth=(0,)), llvm) == []


def test_a_transpose_of_the_other_operand_stays_an_operand_of_its_own(llvm):
    found = spaces(product_with_its_transpose(), llvm)
    assert any("ReIndex" in canonical_text(schedule.trace) for schedule in found)
    assert_same_numbers(product_with_its_transpose(), llvm, seed=5, found=found, at_most=3)


def product_with_its_transpose():
    x, k = te.placeholder((47, 60), name="X"), te.reduce_axis((0, 60), name="k")
    turned = te.compute((60, 47), lambda i, j: x[j, i], name="T")
    c = te.compute((47, 47), lambda i, j: te.sum(x[i, k] * turned[k, j], axis=k), name="C")
    return canonical_module(te.create_prim_func([x, c]))
