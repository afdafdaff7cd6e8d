"""How many vector registers a target has, and which register tiles of a contraction fit into them.

A register tile holds rows x vectors accumulators. Beside them stand the operands of its shorter side, vectors
of columns or broadcasts of rows, and one of the longer side, whose loop is the outer one; what does not fit
is spilled in the innermost loop, which costs more than any other mistake. Nothing here knows a workload.
"""

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

#: A fused multiply-add takes four cycles, and two start in each: fewer accumulators leave units idle.
_FMA_CYCLES = 4
FMAS_PER_CYCLE = 2
#: CPUs that compute and load vectors of 512 bits in two steps; no feature tells. Broadcasts are no limit
#: there, and tiles of one vector, as 17 x 1 for an image's lines, are as good as others.
_SPLITTING = frozenset({"znver4"})
_SPLIT_WIDTH = 512
#: Measured on Zen 5 with AVX-512 (tiles of 4 to 16 rows and 1 to 4 vectors): what a load costs where loads
#: are the limit, and what the loop adds to each step of the depth.
_CYCLES_PER_LOAD = 0.68
_OVERHEAD_CYCLES = 0.8
#: CPUs that split their vectors hide most of that. But what they write at a tile's end does not wait beside
#: the next tile where it is more than so many rows of one vector: 784 x 192 of 16 deep made 224 GFLOP/s by 8
#: rows, 219 by 16, 187 by 28 or by 14 x 2 vectors; of 64 deep 227, 227 and 218 (Zen 4; its peak is 230).
#: Of thousands deep all are level; high ones, which read less, stay in front by a little overhead.
_SPLIT_OVERHEAD_CYCLES, _WAITING_ROWS = 0.3, 16
#: What a vector of results costs that waits in memory: those above; and on Zen 5 those of a larger tile than
#: goes from registers to what reads it (3.3 to 4.7): 1024 x 256, 16 deep, with bias and ReLU took 27 µs by
#: 8 x 2, 20 by 4 x 2, 2000 x 512, 24 deep, 131 and 103; 64 and 80 deep both are level.
_CYCLES_PER_RESULT = 3.6
#: A load that misses the first cache at each step: 27 rows 2 KiB apart made 0.45 of peak, 16 and 27 rows
#: 4 KiB apart 0.37 and 0.2 (Zen 4).
_CYCLES_PER_MISS = 3.0
#: Operands of another type than the results are converted at every step: with float16 27 x 1 vectors made 111
#: GFLOP/s, 8 x 2 168, 6 x 4 190; with int8 111, 144, 155 (Zen 4; 230 are its peak).
_CYCLES_PER_CAST = 1.0
#: A tile wider than high reads more of the columns' operand. On Zen 3, 3 x 4 vectors had 0.95 of the speed
#: of 6 x 2; where they had displaced 5 x 2, in a product of 512 cubed, a search's best was a sixth slower.
_WIDE = 0.95
#: Features of CPUs that add and multiply float16 itself.
_HALF_ARITHMETIC = frozenset({"avx512fp16", "fullfp16"})
_SINGLE = 32
_X86_WIDTHS = {"sse2": 128, "avx": 256, "avx512f": 512}
_REGISTERS_OF_AVX512 = 32
_MAX_ROWS = 28
_MIN_LANES = 4
_MAX_VECTORS = 8
#: Vectors that lie ready may leave so much more of their lanes empty than padded ones do.
MIN_READY = 0.85


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorUnit:
    """Vector registers of one core."""

    #: Elements of the contraction's type in one register.
    lanes: int
    registers: int
    #: Fused multiply-adds that start in a cycle.
    fmas_per_cycle: int = FMAS_PER_CYCLE


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterTile:
    """rows x columns accumulators that stay in registers; columns are whole vectors."""

    rows: int
    columns: int

    def padded(self, extents: tuple[int, int]) -> tuple[int, int]:
        """(rows, columns) rounded up to whole tiles."""
        return round_up(extents[0], self.rows), round_up(extents[1], self.columns)

    def nest(self, row: Any, vector: Any, lane: Any, *, lanes: int) -> tuple[Any, Any, Any]:
        """Its loops from the outside. LLVM keeps this order: 3 x 4 vectors spill the other way round."""
        return (vector, row, lane) if self.columns > self.rows * lanes else (row, vector, lane)


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """What tiles have to cover."""

    rows: int
    columns: int
    #: Steps that a tile sums before it is written; None: so many that its end is no matter.
    depth: int | None = None
    #: Rows of a tile whose scalars find room in a first cache; None: of any.
    roomy_rows: int | None = None
    #: Operands are of another type.
    casts: bool = False
    #: Results of a larger tile (elements), and of padded columns, wait in memory for what reads them; None:
    #: nothing does so.
    taken: int | None = None


def vector_unit(target: Any, dtype: str) -> VectorUnit:
    """The unit of a CPU target for results of this type, as wide as they are computed."""
    from tvm.target import codegen

    features = {str(name) for name in codegen.llvm_get_cpu_features(target)}
    width = _width(target, features)
    return VectorUnit(
        lanes=max(1, width // _arithmetic_bits(dtype, features)),
        registers=_registers(target, width, features),
        fmas_per_cycle=FMAS_PER_CYCLE // (2 if _splits(target, width) else 1),
    )


def half_unit(unit: VectorUnit) -> VectorUnit | None:
    """The same registers by halves, where these are as fast; None elsewhere."""
    is_split = unit.fmas_per_cycle < FMAS_PER_CYCLE and unit.lanes > 1
    return VectorUnit(lanes=unit.lanes // 2, registers=unit.registers) if is_split else None


def ready_unit(unit: VectorUnit, run: int, *, least: float = MIN_READY) -> VectorUnit | None:
    """Vectors that make up `run` elements where they lie, but for the unit's own.

    None where none have `least` of the speed of padded ones.

    They need be no power of two: eleven columns took 19.6 µs, padded to sixteen 22.3, three 11.3 and 20.5
    (512 x 256, Zen 4). Longer ones than the unit's are slow.
    """
    fitting = [lanes for lanes in range(2, unit.lanes + 1) if run % lanes == 0]
    lanes = max(fitting, key=lambda lanes: (speed_of(lanes, unit), lanes), default=unit.lanes)
    if lanes == unit.lanes or speed_of(lanes, unit) < least * _padded_speed(run, unit):
        return None
    return part_of(unit, lanes)


def part_of(unit: VectorUnit, lanes: int) -> VectorUnit:
    """The same registers, of which so many lanes are used; where vectors are split, halves are as fast."""
    half = half_unit(unit)
    is_half = half is not None and lanes <= half.lanes
    fmas_per_cycle = FMAS_PER_CYCLE if is_half else unit.fmas_per_cycle
    return VectorUnit(lanes=lanes, registers=unit.registers, fmas_per_cycle=fmas_per_cycle)


def speed_of(lanes: int, unit: VectorUnit) -> float:
    """The part of a step that computes something, of one that fills what an instruction starts in a cycle."""
    least = unit.fmas_per_cycle / FMAS_PER_CYCLE  # halves are as fast where wholes take two steps
    return lanes / (unit.lanes * max(least, widened(lanes) / unit.lanes))


def ending_speed(run: int, unit: VectorUnit) -> float:
    """Of `run` elements as whole vectors and a lesser one; none where either is missing.

    Odd vectors, which LLVM takes apart, are slower at every step: depthwise 28 x 28, 128 channels first, took
    21 µs by 28 at once, 18 by 14, 14 by sixteen and twelve; 53 x 53, 64 channels, 42 and 35 (Zen 4).
    """
    left = run % unit.lanes
    if run < unit.lanes or not left:
        return 0.0
    return run / (run - left + left / speed_of(left, unit))


def widened(lanes: int) -> int:
    """LLVM widens a vector to a power of two."""
    return 1 << (lanes - 1).bit_length()


def _padded_speed(run: int, unit: VectorUnit) -> float:
    units = [each for each in (unit, half_unit(unit)) if each is not None]
    return max(run / round_up(run, each.lanes) for each in units)


def fitting_unit(unit: VectorUnit, columns: int) -> VectorUnit:
    """Vectors that so few columns fill, where padding whole ones would be no faster; else the unit itself."""
    lanes = math.gcd(columns, unit.lanes)
    as_fast = lanes * FMAS_PER_CYCLE >= columns * unit.fmas_per_cycle
    if columns >= unit.lanes or lanes < _MIN_LANES or not as_fast:
        return unit
    return VectorUnit(lanes=lanes, registers=unit.registers)


@cache
def register_tiles(unit: VectorUnit) -> tuple[RegisterTile, ...]:
    """Every tile that fits."""
    return tuple(
        RegisterTile(rows=rows, columns=vectors * unit.lanes)
        for vectors in range(1, _MAX_VECTORS + 1)
        for rows in range(1, _MAX_ROWS + 1)
        if _held(rows, vectors, unit) <= unit.registers
    )


def _held(rows: int, vectors: int, unit: VectorUnit) -> int:
    """Registers that a step of the depth needs."""
    if vectors == 1 and unit.registers < _REGISTERS_OF_AVX512:
        # Only AVX-512 multiplies by a number broadcast from memory. LLVM adds to the broadcast that it needs
        # no more, and has all broadcasts loaded before: 9 x 1 spilled, at half the speed of 7 x 1.
        return 2 * rows + 1
    return rows * vectors + min(rows, vectors) + 1


def best_tiles(
    tiles: Iterable[RegisterTile], unit: VectorUnit, results: Results, *, count: int
) -> tuple[RegisterTile, ...]:
    """The `count` tiles of which a contraction with such results may hope for most, the best first.

    Behind one of a single vector the best that is wider comes next: hope knows little of caches.
    """
    ranked = sorted(
        tiles,
        key=lambda tile: (-hope(tile, unit, results), -tile.rows * tile.columns, tile.columns),
    )
    if ranked and ranked[0].columns == unit.lanes:
        wider = [tile for tile in ranked if tile.columns > unit.lanes]
        ranked = [ranked[0], *wider[:1], *(tile for tile in ranked[1:] if tile not in wider[:1])]
    return tuple(ranked[:count])


def hope(tile: RegisterTile, unit: VectorUnit, results: Results) -> float:
    """The share of peak that loads and latencies leave, times the share of work that is no padding."""
    high, wide = tile.padded((results.rows, results.columns))
    return _share(tile, unit, results) * (results.rows * results.columns) / (high * wide)


def hope_of_ended(tile: RegisterTile, unit: VectorUnit, results: Results) -> float:
    """Where the last tile has fewer rows in place of padding: it takes its own time, which hope rounds up."""
    whole, left = divmod(results.rows, tile.rows)
    rows = [tile.rows] * whole + [left] * bool(left)
    steps = sum(high / _share(RegisterTile(rows=high, columns=tile.columns), unit, results) for high in rows)
    _, wide = tile.padded((results.rows, results.columns))
    return results.rows / steps * results.columns / wide


def hope_of_ended_columns(tile: RegisterTile, unit: VectorUnit, results: Results) -> float:
    """Where the last vector of columns is a lesser one: of a tile's vectors all but it are whole, or missing.

    0.0 where it is another's turn, for then the length of a vector would depend on its place in the tile.
    """
    vectors, whole = tile.columns // unit.lanes, results.columns // unit.lanes
    n_tiles, left = divmod(whole, vectors)
    if not n_tiles or left not in (0, vectors - 1):
        return 0.0
    last = tile if left else RegisterTile(rows=tile.rows, columns=unit.lanes)
    # What reads the results takes the lesser one's as well as the others'.
    of_whole = replace(results, columns=tile.columns)
    steps = n_tiles * vectors / _share(tile, unit, of_whole)
    steps += last.columns // unit.lanes / _share(last, unit, of_whole)
    high, _ = tile.padded((results.rows, results.columns))
    return results.columns / unit.lanes / steps * results.rows / high


def _share(tile: RegisterTile, unit: VectorUnit, results: Results) -> float:
    """Of the peak."""
    vectors = tile.columns // unit.lanes
    fmas = tile.rows * vectors
    is_crowded = results.roomy_rows is not None and tile.rows > results.roomy_rows
    cycles = max(
        fmas / unit.fmas_per_cycle,
        _FMA_CYCLES,
        (vectors * FMAS_PER_CYCLE / unit.fmas_per_cycle + tile.rows) * _CYCLES_PER_LOAD,
        tile.rows * _CYCLES_PER_MISS if is_crowded else 0.0,
    )
    cycles += (tile.rows + vectors) * _CYCLES_PER_CAST * results.casts
    is_split = unit.fmas_per_cycle < FMAS_PER_CYCLE
    cycles += _SPLIT_OVERHEAD_CYCLES if is_split else _OVERHEAD_CYCLES
    waits = vectors > 1 or tile.rows > _WAITING_ROWS if is_split else _is_left(tile, results)
    if waits and results.depth is not None:
        cycles += fmas * _CYCLES_PER_RESULT / results.depth
    return fmas / unit.fmas_per_cycle / cycles * (_WIDE if vectors > tile.rows else 1.0)


def _is_left(tile: RegisterTile, results: Results) -> bool:
    """In memory, before what reads its results."""
    if results.taken is None:
        return False
    return tile.rows * tile.columns > results.taken or results.columns % tile.columns > 0


def largest_divisor(number: int, *, at_most: int) -> int:
    """Of the divisors of an extent that are not above `at_most`."""
    return max(size for size in range(1, at_most + 1) if number % size == 0)


def _splits(target: Any, width: int) -> bool:
    return width == _SPLIT_WIDTH and str(target.attrs.get("mcpu", "")) in _SPLITTING


def _width(target: Any, features: Collection[str]) -> int:
    """Bits of a vector register. TVM 0.27 tells 512 for every x86, whatever it has."""
    from tvm.target import codegen

    of_x86 = [width for name, width in _X86_WIDTHS.items() if name in features]
    return max(of_x86, default=0) or int(codegen.llvm_get_vector_width(target)) or _X86_WIDTHS["sse2"]


def _arithmetic_bits(dtype: str, features: Collection[str]) -> int:
    """A CPU that does not add halves computes in single precision; no TVM target adds bfloat16 itself."""
    from tvm import DataType

    if dtype == "bfloat16" or (dtype == "float16" and not _HALF_ARITHMETIC.intersection(features)):
        return _SINGLE
    return int(DataType(dtype).bits)


def _registers(target: Any, width: int, features: Collection[str]) -> int:
    """Of one vector width: x86 has 32 with AVX-512 and 16 before it, AArch64 has 32."""
    if "aarch64" in str(target.attrs.get("mtriple", "")):
        return 32
    return _REGISTERS_OF_AVX512 if width >= 512 or "avx512vl" in features else 16


def round_up(extent: int, multiple: int) -> int:
    """To a multiple."""
    return -(-extent // multiple) * multiple
