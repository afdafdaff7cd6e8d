"""Register tiles fit the registers of the CPU that is asked for."""

import pytest

from tests.tuner.contractions import AVX2, AVX512, capsule_product, matmul, tvm
from tuner.space.contraction import Contraction
from tuner.space.plans import Staging, narrow_plans, plans, ready_plans
from tuner.space.vectors import (
    RegisterTile,
    Results,
    VectorUnit,
    best_tiles,
    fitting_unit,
    half_unit,
    hope,
    ready_unit,
    register_tiles,
    vector_unit,
)
from tuner.target import make_target


def block_of(mod):
    schedule = tvm.s_tir.Schedule(mod, debug_mask="none")
    return schedule.get(schedule.get_sblock("C"))


def test_every_register_tile_fits_the_registers():
    for unit in (AVX2, AVX512):
        for tile in register_tiles(unit):
            vectors = tile.columns // unit.lanes
            assert tile.rows * vectors + min(tile.rows, vectors) + 1 <= unit.registers
            # Without AVX-512 each broadcast of a tile of one vector becomes the next sum.
            assert unit is AVX512 or vectors > 1 or 2 * tile.rows + 1 <= unit.registers
    assert best_tiles(register_tiles(AVX2), AVX2, Results(rows=960, columns=960), count=1)[0].columns == 16


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


def test_padding_is_weighed_against_the_tile():
    (tile,) = best_tiles(register_tiles(AVX512), AVX512, Results(rows=49, columns=512), count=1)
    assert 49 % tile.rows == 0 or tile.padded((49, 512))[0] <= 50


def test_half_vectors_are_for_cpus_that_compute_whole_ones_in_two_steps():
    zen4, intel = (
        make_target({"kind": "llvm", "num-cores": 1, "mcpu": cpu}) for cpu in ("znver4", "rocketlake")
    )
    assert half_unit(vector_unit(intel, "float32")) is None
    half = half_unit(vector_unit(zen4, "float32"))
    assert (half.lanes, half.registers, half.fmas_per_cycle) == (8, 32, 2)
    whole = vector_unit(zen4, "float32")
    assert (whole.lanes, whole.fmas_per_cycle) == (16, 1)
    # Seventeen pixels of a line: broadcasts keep them from being computed two at a time.
    line = RegisterTile(rows=17, columns=16)
    image = Results(rows=289, columns=192)
    assert hope(line, whole, image) > 0.9 > hope(line, vector_unit(intel, "float32"), image)


def test_columns_that_fill_no_whole_vectors_are_offered_half_ones():
    half = VectorUnit(lanes=8, registers=32)
    assert {plan.tile.columns % 8 for plan in narrow_plans(few_columns(24), AVX512, half)} == {0}
    assert {plan.tile.columns for plan in narrow_plans(few_columns(7), AVX512, half)} == {8}
    assert narrow_plans(few_columns(1000), AVX512, half) == ()
    assert narrow_plans(few_columns(10), AVX512, half) == ()


def test_no_vector_goes_across_the_end_of_a_line():
    """Four capsules of eight columns: whole vectors are for a copy, halves lie ready."""
    capsules = Contraction.of(block_of(capsule_product(capsules=4, columns=8)))
    assert (capsules.extents[1], capsules.run) == (32, 8)
    assert not any(plan.vectors is Staging.NONE for plan in plans(capsules, AVX512))
    ready = ready_unit(AVX512, capsules.run)
    assert ready.lanes == 8
    assert {plan.vectors for plan in ready_plans(capsules, ready)} == {Staging.NONE}
    wide = Contraction.of(block_of(capsule_product(capsules=4, columns=32)))
    assert any(plan.vectors is Staging.NONE for plan in plans(wide, AVX512))
    assert ready_unit(AVX512, wide.run) is None


@pytest.mark.parametrize(
    ("fmas_per_cycle", "run", "lanes"),
    [
        (2, 11, 11), (2, 3, 3), (2, 28, 14), (2, 30, 15), (2, 40, None), (1, 40, 8), (1, 7, 7), (1, 20, None),
        (2, 16, None), (2, 17, None), (2, 1000, None), (1, 1000, 8), (2, 1, None),
    ],
)  # fmt: skip
def test_vectors_that_lie_ready_are_any_divisor_that_leaves_few_lanes_empty(fmas_per_cycle, run, lanes):
    unit = VectorUnit(lanes=16, registers=32, fmas_per_cycle=fmas_per_cycle)
    ready = ready_unit(unit, run)
    assert (ready and ready.lanes) == lanes


def few_columns(count):
    return Contraction.of(block_of(matmul(64, count, 64)))


def test_tiles_are_wider_where_every_row_is_converted():
    same, other = (
        best_tiles(register_tiles(AVX512), AVX512, Results(rows=1024, columns=1024, casts=casts), count=1)[0]
        for casts in (False, True)
    )
    assert other.columns > same.columns
    assert other.rows + other.columns // 16 < same.rows + same.columns // 16


@pytest.mark.parametrize(
    ("fmas_per_cycle", "columns", "lanes"),
    [(1, 4, 4), (2, 4, 4), (1, 8, 8), (1, 12, 16), (2, 12, 16), (1, 3, 16), (1, 16, 16), (1, 20, 16)],
)
def test_vectors_are_no_wider_than_few_columns_unless_padding_them_is_faster(fmas_per_cycle, columns, lanes):
    unit = VectorUnit(lanes=16, registers=32, fmas_per_cycle=fmas_per_cycle)
    assert fitting_unit(unit, columns).lanes == lanes


def test_groups_of_four_channels_are_tiled_without_padding_or_copies():
    unit = fitting_unit(AVX512, 4)
    contraction = Contraction.of(block_of(matmul(64, 4, 36)))
    assert {plan.tile.columns for plan in plans(contraction, unit)} == {4}
    assert any(plan.vectors is Staging.NONE for plan in plans(contraction, unit))


def test_where_vectors_are_split_a_short_depth_takes_tiles_whose_results_can_wait():
    split = VectorUnit(lanes=16, registers=32, fmas_per_cycle=1)
    short = Results(rows=784, columns=192, depth=16)
    narrow, wide = best_tiles(register_tiles(split), split, short, count=2)
    assert (narrow.rows, narrow.columns) == (16, 16)
    assert wide.columns > 16  # the next best by hope would be much the same tile
    deep = Results(rows=784, columns=192, depth=4096)
    tall = RegisterTile(rows=28, columns=16)
    assert hope(tall, split, short) < 0.85
    assert hope(tall, split, deep) > 0.95
