"""Rows in one pass (softmax, normalisations, sums) in our space: right numbers, traces that are allowed."""

import json

import numpy as np
import pytest

from checks.space import named_space
from checks.trace import check_trace
from tests.tuner.contractions import inputs, matmul, outputs
from tests.tuner.driving import open_search
from tuner.module import canonical_module, structural_hash
from tuner.space.row_rule import passed_through
from tuner.target import make_target
from tuner.trace import apply_trace, canonical_text
from tuner.tvm_light import load_tvm

tvm = load_tvm()
te = tvm.te

OURS, _ = named_space("tilefarm")


def module(build, *shapes):
    from tvm import topi

    arguments = [te.placeholder(shape, name=f"X{number}") for number, shape in enumerate(shapes)]
    return canonical_module(te.create_prim_func([*arguments, build(topi, *arguments)]))


def scaled_root_mean_square(topi, x, scale):
    squares = topi.sum(topi.multiply(x, x), axis=-1, keepdims=True)
    return topi.multiply(topi.multiply(x, topi.rsqrt(topi.add(squares, 1e-5))), scale)


SOFTMAX = (lambda topi, x: topi.nn.softmax(x, axis=-1), (7, 128))
#: A polynomial in place of exp, as relax's FastMathTransform writes it: nothing is called.
FAST = (lambda topi, x: topi.nn.fast_softmax(x, axis=1), (7, 128))
NORM = (lambda topi, x, g, b: topi.nn.layer_norm(x, g, b, [2]), (2, 3, 96), (96,), (96,))
KEEPING = (scaled_root_mean_square, (5, 64), (64,))
SUM = (lambda topi, x: topi.sum(x, axis=-1), (3, 5, 256))
PRODUCT = (lambda topi, x, y: topi.sum(topi.multiply(x, y), axis=-1), (9, 64), (64,))


def forms(mod, target):
    """Of the first block that reduces."""
    schedule = tvm.s_tir.Schedule(mod, debug_mask="none")
    blocks = schedule.get_child_blocks(schedule.get_sblock("root"))
    block = next(block for block in blocks if schedule.get(block).init is not None)
    return passed_through(schedule, block, make_target(target))


@pytest.mark.parametrize(
    ("case", "n_forms"),
    [(SOFTMAX, 2), (FAST, 1), (NORM, 1), (KEEPING, 1), (SUM, 1), (PRODUCT, 1)],
    ids=["softmax", "by a polynomial", "layer norm", "kept axes", "sum", "matrix times vector"],
)
def test_each_form_gives_the_numbers_of_the_untuned_program(llvm, case, n_forms):
    mod = module(*case)
    found = forms(mod, llvm)
    assert len(found) == n_forms
    arrays = inputs(mod)
    expected = outputs(mod, llvm, arrays)
    for schedule in found:
        trace = json.loads(canonical_text(schedule.trace))
        check_trace(trace)
        again = apply_trace(trace, mod)
        np.testing.assert_allclose(outputs(again.mod, llvm, arrays), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "case",
    [
        (lambda topi, x: topi.nn.softmax(x, axis=0), (64, 64)),
        (lambda topi, x: topi.sum(x, axis=-1), (16, 17)),
        (lambda topi, x: topi.sum(x, axis=(0, 1)), (16, 64)),
    ],
    ids=["along columns", "no whole vectors", "no rows"],
)
def test_what_has_no_contiguous_rows_is_left_alone(llvm, case):
    assert forms(module(*case), llvm) == []


def test_a_contraction_is_left_to_its_own_rule(llvm):
    assert forms(matmul(8, 64, 64, transposed=True), llvm) == []


def test_each_design_space_of_a_softmax_is_there_once(llvm):
    """Its two reductions share their rows: both would bring the same forms."""
    spaces = open_search("random", module(*SOFTMAX), llvm, space=OURS)._setup.design_spaces
    traces = [canonical_text(schedule.trace) for schedule in spaces]
    assert sum("SSRSSRSS" in trace for trace in traces) == 2
    assert (
        len(
            {
                structural_hash(schedule.mod)
                for schedule in spaces
                if "SSRSSRSS" in canonical_text(schedule.trace)
            }
        )
        == 2
    )


def test_the_space_of_a_softmax_has_whole_rows_in_it(llvm):
    search = open_search("random", module(*SOFTMAX), llvm, space=OURS)
    candidates = search.suggest(12, round_=0).candidates
    assert sum(candidate.trace.count("SSRSSRSS") >= 4 for candidate in candidates) >= 2
