"""Register tiles fit the registers of the CPU that is asked for."""

import pytest

from tests.tuner.contractions import AVX2, AVX512
from tuner.space.vectors import best_tiles, register_tiles, vector_unit
from tuner.target import make_target


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


def test_padding_is_weighed_against_the_tile():
    (tile,) = best_tiles(register_tiles(AVX512), AVX512, rows=49, columns=512, count=1)
    assert 49 % tile.rows == 0 or tile.padded((49, 512))[0] <= 50
