"""Lines of less than two vectors are written as vectors: LLVM would make vectors across them, and scatter."""

import pytest

from tests.tuner.contractions import assert_same_numbers, computed, matmul, spaces, spaces_of_function, tvm
from tuner.space.padding import write_lines
from tuner.trace import canonical_text

_ZEN5 = {"kind": "llvm", "mcpu": "znver5", "num-cores": 2}
_VECTORIZED = tvm.tirx.ForKind.VECTORIZED


def _standardised(topi, x):
    """Two sums, and what is normalised by them, line by line."""
    mean = topi.divide(topi.sum(x, [0], keepdims=True), 640.0)
    centred = topi.subtract(x, mean)
    return topi.divide(centred, topi.add(topi.sum(topi.multiply(centred, centred), [0], keepdims=True), 1.0))


def _last_loops(schedule, name):
    block = schedule.get_sblock(name)
    *_, last = [schedule.get(loop) for loop in schedule.get_loops(block)]
    return last.kind, int(last.extent)


@pytest.mark.parametrize(
    ("channels", "expected"), [(7, None), (8, 8), (12, 12), (17, 16), (27, 16), (33, None)]
)
def test_of_a_line_that_is_normalised_and_how_long_its_vectors_are(channels, expected):
    found = spaces_of_function(computed(_standardised, (640, channels)), _ZEN5)
    assert found
    for each in found:
        kind, extent = _last_loops(each, "T_divide_1")
        assert (extent if kind == _VECTORIZED else None) == expected


@pytest.mark.parametrize("channels", [9, 17, 27, 31])
@pytest.mark.parametrize("mcpu", ["znver5", "znver3"])
def test_normalised_lines_have_the_numbers_of_the_untuned_program(llvm, channels, mcpu):
    mod = computed(_standardised, (640, channels))
    found = spaces_of_function(mod, {**_ZEN5, "mcpu": mcpu})
    assert_same_numbers(mod, llvm, seed=channels, found=found, at_most=len(found))


@pytest.mark.parametrize("columns", [9, 13, 17, 27, 31])
@pytest.mark.parametrize("epilogue", [False, True])
def test_so_have_products_whose_rows_are_such_lines(llvm, columns, epilogue):
    mod = matmul(50, columns, 300, epilogue=epilogue)
    found = [each for each in spaces(mod, _ZEN5) if "PadEinsum" in canonical_text(each.trace)]
    assert found
    name = "D" if epilogue else "C_reindex"
    blocks = [
        [each.get(b).name_hint for b in each.get_child_blocks(each.get_sblock("root"))] for each in found
    ]
    ended = [each for each, names in zip(found, blocks, strict=True) if name in names]
    assert any(_last_loops(each, name)[0] == _VECTORIZED for each in ended)
    assert_same_numbers(mod, llvm, seed=columns, found=found, at_most=len(found))


def _padded(topi, x):
    return topi.nn.pad(x, (0, 1), (0, 2))


def _relu(topi, x):
    return topi.nn.relu(x)


@pytest.mark.parametrize(("function", "columns", "expected"), [(_relu, 27, True), (_padded, 24, False)])
def test_a_line_with_a_condition_for_each_element_is_left_alone(function, columns, expected):
    """TVM would take the vector apart, lane by lane."""
    schedule = tvm.s_tir.Schedule(computed(function, (640, columns)))
    (block,) = schedule.get_child_blocks(schedule.get_sblock("root"))
    write_lines(schedule, list(schedule.get_loops(block)), schedule.get(block), lanes=16)
    kinds = [schedule.get(loop).kind for loop in schedule.get_loops(block)]
    assert (_VECTORIZED in kinds) == expected
