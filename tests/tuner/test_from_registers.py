"""Results of short sums go from registers to their place, tile by tile: where they do, and their numbers."""

import json

import pytest

from checks.trace import check_trace
from tests.tuner.contractions import (
    assert_same_numbers,
    capsule_product,
    computed,
    convolution,
    matmul,
    spaces,
    tvm,
)
from tuner.target import make_target
from tuner.trace import canonical_text

_UNROLLED, _VECTORIZED = tvm.tirx.ForKind.UNROLLED, tvm.tirx.ForKind.VECTORIZED
_ZEN3 = {"kind": "llvm", "mcpu": "znver3", "num-cores": 2}


def _tiled(mod, target):
    """Of those in register tiles, whether the block behind the sum is a tile's, which is written out."""
    for each in spaces(mod, target):
        names = [each.get(block).name_hint for block in each.get_child_blocks(each.get_sblock("root"))]
        (at,) = [place for place, name in enumerate(names) if name.endswith("_update")]
        kinds = [
            [each.get(loop).kind for loop in each.get_loops(each.get_sblock(name))]
            for name in names[at + 1 :]
        ]
        yield each, any(loops[-3:] == [_UNROLLED, _UNROLLED, _VECTORIZED] for loops in kinds)


@pytest.mark.parametrize("epilogue", [False, True])
@pytest.mark.parametrize(("depth", "expected"), [(16, True), (256, True), (257, False), (1024, False)])
def test_of_sums_up_to_a_depth(depth, expected, epilogue):
    found = list(_tiled(matmul(96, 128, depth, epilogue=epilogue), _ZEN3))
    assert found
    assert {taken for _, taken in found} == {expected}


def _gelu(topi, x0, x1):
    return topi.erf(topi.nn.matmul(x0, x1))


def _residual(topi, x0, x1, x2):
    return topi.nn.relu(topi.add(topi.nn.matmul(x0, x1), x2))


def test_what_calls_a_function_for_each_element_stays_behind_all_tiles():
    found = list(_tiled(computed(_gelu, (96, 32), (32, 128)), _ZEN3))
    assert found
    assert not any(taken for _, taken in found)


def test_a_tile_that_does_not_fit_the_stack_goes_through_memory_as_before():
    """TVM asks its runtime for a buffer of 1024 bytes: sixteen vectors of AVX-512."""
    found = list(_tiled(matmul(96, 128, 32, epilogue=True), _ZEN3 | {"mcpu": "znver4"}))
    large = {taken for each, taken in found if _tile_bytes(each) >= 1024}
    assert large == {False}


@pytest.mark.parametrize(
    ("depth", "epilogue", "expected"), [(16, True, True), (512, True, False), (16, False, False)]
)
def test_tiles_are_small_enough_where_short_sums_are_read_tile_by_tile(depth, epilogue, expected):
    """Of vectors that are computed at once the larger ones compute faster, and wait in memory for longer."""
    mod = matmul(96, 128, depth, epilogue=epilogue)
    found = list(_tiled(mod, _ZEN3 | {"mcpu": "znver5"}))
    assert found
    assert {_tile_bytes(each) < 1024 for each, _ in found} == {expected}
    assert {taken for _, taken in found} == {expected}


@pytest.mark.parametrize(("columns", "expected"), [(100, False), (120, True), (20, True)])
def test_many_quarters_of_a_vector_behind_a_product_are_left_to_llvm(columns, expected):
    """Halves of a vector, and few quarters, are written out."""
    mod = matmul(97, columns, 64, epilogue=True)
    found = [each for each in spaces(mod, _ZEN3 | {"mcpu": "znver5"}) if _pads(each)]
    assert found
    assert {_is_vector(each, "D") for each in found} == {expected}


def _pads(schedule):
    return "PadEinsum" in canonical_text(schedule.trace)


def _is_vector(schedule, name):
    return schedule.get(schedule.get_loops(schedule.get_sblock(name))[-1]).kind == _VECTORIZED


def _tile_bytes(schedule):
    """Of all unrolled and vectorised loops around the sum."""
    (name,) = [
        schedule.get(block).name_hint
        for block in schedule.get_child_blocks(schedule.get_sblock("root"))
        if schedule.get(block).name_hint.endswith("_update")
    ]
    loops = [schedule.get(loop) for loop in schedule.get_loops(schedule.get_sblock(name))]
    n = 4
    for loop in loops:
        n *= int(loop.extent) if loop.kind in (_UNROLLED, _VECTORIZED) else 1
    return n


@pytest.mark.parametrize("epilogue", [False, True])
def test_llvm_keeps_the_sums_in_registers(epilogue):
    """Neither on the stack nor in memory: a product whose operands lie ready needs none of either."""
    mod = matmul(96, 128, 16, epilogue=epilogue)
    in_place = 0
    for each, taken in _tiled(mod, _ZEN3):
        assert taken
        built = tvm.compile(each.mod, make_target(_ZEN3)).mod
        code = (built.imports[0] if built.imports else built).inspect_source("ll")
        assert "x float], align" not in code
        in_place += "TVMBackendAllocWorkspace" not in code
    assert in_place


@pytest.mark.parametrize(
    "mod",
    [
        matmul(96, 128, 16, epilogue=True),
        matmul(97, 128, 24, epilogue=True),
        matmul(101, 120, 7),
        matmul(64, 130, 12, epilogue=True),
        matmul(96, 128, 20, transposed=True, epilogue=True),
        computed(_residual, (90, 30), (30, 64), (90, 64)),
        capsule_product(capsules=4, columns=16),
        capsule_product(capsules=6, columns=8),
        convolution(14, 8, 32, stride=1, padding=1, dilation=1, groups=1, relu=True),
        convolution(13, 8, 32, stride=2, padding=1, dilation=1, groups=1),
        convolution(14, 8, 32, stride=1, padding=1, dilation=1, groups=1, nchw=True, relu=True),
        convolution(12, 32, 64, stride=1, padding=1, dilation=1, groups=4, relu=True),
        convolution(15, 16, 24, stride=1, padding=0, dilation=1, groups=1, kernel=1, relu=True),
    ],
    ids=[
        "dense",
        "rows that no tile divides",
        "prime rows, plain",
        "columns that no vector divides",
        "weights along the depth",
        "residual",
        "columns of two axes",
        "short columns of two axes",
        "lines of two sizes",
        "strided, plain",
        "channels first",
        "groups",
        "one tap",
    ],
)
def test_they_give_the_numbers_of_the_untuned_program(llvm, mod):
    found = spaces(mod, llvm)
    for each in found:
        check_trace(json.loads(canonical_text(each.trace)))
    assert_same_numbers(mod, llvm, seed=1, found=found, at_most=5)
