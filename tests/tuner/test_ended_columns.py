"""Contractions whose columns fill no whole vectors: they end with a lesser one, and no operand is copied."""

from dataclasses import replace

import pytest

from tests.tuner.contractions import assert_same_numbers, convolution, matmul, spaces, tvm
from tuner.space import contraction_rule
from tuner.space.contraction import Contraction
from tuner.space.plans import Staging, ending_plans
from tuner.space.vectors import RegisterTile, Results, VectorUnit, ending_speed, hope_of_ended_columns
from tuner.trace import canonical_text

#: Tiles of one vector are as good as others where vectors are computed by halves, as by this unit.
_SPLIT = VectorUnit(lanes=8, registers=32, fmas_per_cycle=1)
_WHOLE = VectorUnit(lanes=8, registers=32)


@pytest.fixture(autouse=True)
def _splits(monkeypatch):
    """Whatever the host does: any runs the programs that are written for such a unit."""
    monkeypatch.setattr(contraction_rule, "vector_unit", lambda *_: _SPLIT)


def _ended(mod, target, monkeypatch):
    """The schedules that are missing without the rule."""
    every = spaces(mod, target)
    monkeypatch.setattr(contraction_rule, "_ending", lambda contraction, *_: (contraction, []))
    others = {canonical_text(each.trace) for each in spaces(mod, target)}
    return [each for each in every if canonical_text(each.trace) not in others]


@pytest.mark.parametrize(
    ("rows", "columns", "depth", "epilogue"),
    [(64, 35, 8, False), (60, 17, 33, True), (96, 163, 24, True)],
    ids=["shallow", "one is left", "long lines"],
)
def test_products_give_the_numbers_of_the_untuned_program(llvm, monkeypatch, rows, columns, depth, epilogue):
    mod = matmul(rows, columns, depth, epilogue=epilogue)
    found = _ended(mod, llvm, monkeypatch)
    assert found
    assert_same_numbers(mod, llvm, seed=3, found=found, at_most=len(found))


@pytest.mark.parametrize(
    ("size", "channels", "filters", "groups", "stride", "nchw"),
    [
        (12, 8, 35, 1, 1, False),
        (17, 6, 19, 1, 1, False),
        (13, 12, 42, 2, 2, False),
        (12, 8, 16, 1, 1, True),
        (21, 5, 12, 1, 1, True),
    ],
    ids=["odd filters", "prime lines", "groups, strided", "channels first", "prime lines, channels first"],
)
def test_convolutions_too(llvm, monkeypatch, size, channels, filters, groups, stride, nchw):
    mod = convolution(
        size, channels, filters, stride=stride, padding=1, dilation=1, groups=groups, nchw=nchw, relu=True
    )
    found = _ended(mod, llvm, monkeypatch)
    assert found
    assert_same_numbers(mod, llvm, seed=4, found=found, at_most=len(found))


def _plans(rows, columns, depth, *, cores=2, unit=_SPLIT):
    schedule = tvm.s_tir.Schedule(matmul(rows, columns, depth))
    (block,) = schedule.get_child_blocks(schedule.get_sblock("root"))
    return ending_plans(Contraction.of(schedule.get(block)), unit, cores=cores)


def test_nothing_is_copied_or_padded():
    (plan, *_) = found = _plans(640, 35, 64)
    assert all(each.ends and each.scalars is each.vectors is Staging.NONE for each in found)
    assert plan.tile.columns == _SPLIT.lanes
    assert not plan.peels


@pytest.mark.parametrize(
    ("rows", "columns", "depth", "cores"),
    [(640, 32, 64, 2), (640, 5, 64, 2), (640, 250, 1024, 2), (16, 35, 64, 32), (37, 35, 300, 2)],
    ids=["whole vectors", "less than one", "far apart", "too few rows for the cores", "prime rows"],
)
def test_others_do_not_end(rows, columns, depth, cores):
    assert _plans(rows, columns, depth, cores=cores) == ()


@pytest.mark.parametrize("unit", [_WHOLE, VectorUnit(lanes=8, registers=16)], ids=["32 registers", "16"])
@pytest.mark.parametrize(
    ("rows", "columns", "depth", "epilogue"),
    [(32, 49, 40, False), (48, 71, 33, True), (24, 361, 20, True), (64, 79, 300, False), (24, 37, 64, True)],
    ids=["one left", "one missing", "two of eleven", "deep", "behind pairs"],
)
def test_wider_tiles_give_these_numbers_too(llvm, monkeypatch, rows, columns, depth, epilogue, unit):
    monkeypatch.setattr(contraction_rule, "vector_unit", lambda *_: unit)
    mod = matmul(rows, columns, depth, epilogue=epilogue)
    found = _ended(mod, llvm, monkeypatch)
    assert found
    assert_same_numbers(mod, llvm, seed=5, found=found, at_most=len(found))


@pytest.mark.parametrize(("depth", "leaves"), [(40, True), (300, False)], ids=["short sums", "long"])
def test_what_follows_takes_the_lesser_vector_from_registers_too(llvm, monkeypatch, depth, leaves):
    monkeypatch.setattr(contraction_rule, "vector_unit", lambda *_: _WHOLE)
    found = _ended(matmul(48, 71, depth, epilogue=True), llvm, monkeypatch)
    assert found
    for schedule in found:
        (last,) = schedule.get_output_blocks(schedule.get_sblock("root"))
        *_, lanes = (schedule.get(loop) for loop in schedule.get_loops(last))
        assert (int(lanes.extent) == _WHOLE.lanes and lanes.kind == tvm.tirx.ForKind.VECTORIZED) == leaves


def test_vectors_of_a_tile_are_whole_or_missing_but_for_one():
    """Of three and a lesser one: pairs, or three and it by itself; of two pairs and it three would not do."""
    results = Results(rows=64, columns=3 * 8 + 5)
    hopes = [
        hope_of_ended_columns(RegisterTile(rows=6, columns=8 * vectors), _WHOLE, results)
        for vectors in range(1, 5)
    ]
    assert [hope > 0 for hope in hopes] == [True, True, True, False]
    assert hope_of_ended_columns(RegisterTile(rows=6, columns=16), _WHOLE, replace(results, columns=37)) > 0
    assert hope_of_ended_columns(RegisterTile(rows=6, columns=24), _WHOLE, replace(results, columns=37)) == 0


def test_the_widest_hope_is_asked_first_and_all_are_read_in_place():
    (plan, *others) = _plans(40, 3481, 150, unit=VectorUnit(lanes=16, registers=32))
    assert (plan.tile.rows, plan.tile.columns) == (10, 32)
    assert all(each.ends and not each.peels for each in (plan, *others))


def test_a_lesser_vector_takes_the_time_of_the_power_of_two_above_it():
    assert ending_speed(35, VectorUnit(lanes=8, registers=32)) == 35 / 40
    assert ending_speed(35, VectorUnit(lanes=16, registers=32)) == 35 / 48
    assert ending_speed(35, VectorUnit(lanes=16, registers=32, fmas_per_cycle=1)) == 35 / 40
    assert ending_speed(32, _SPLIT) == ending_speed(7, _SPLIT) == 0.0
