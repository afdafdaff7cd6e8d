"""What a candidate may be expected to take before anything was measured: work, traffic, copies, balance.

A roofline over feature rows (tuner.features), store by store: the operations in vectors with enough of them
in flight, the bytes that come through each cache (the working set of a share of the work tells what fits; in
the first cache it counts for more where it crowds a few sets), and the elements that are only moved. Times
are cycles of an imagined core: only their ratios count. CPUs alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tuner.features import (
    FLOAT_OPS,
    ITERATIONS,
    N_FEATURES,
    N_HALVINGS,
    N_STOCK,
    N_WITH_CROWDING,
    N_WITH_FOOTPRINTS,
    Rows,
    widened,
)

_Columns = npt.NDArray[np.float64]

#: Columns of tuner.features rows; log2(1 + x) stands in each.
_MATH_CALLS = 5
#: Of integers: divisions and remainders.
_DIVISIONS = 10
#: Of integers, and of conditions: they stand beside an `if_then_else`, which counts as a call of a function.
_COMPARISONS = [11, 14]
_VECTOR, _UNROLLED, _PARALLEL = 18, 28, 39
_PRAGMA = 163
_BYTES, _UNIQUE_BYTES = (slice(57 + column, 147, 18) for column in (3, 4))
_HALVED, _CROWDED = slice(N_STOCK, N_WITH_FOOTPRINTS), slice(N_WITH_FOOTPRINTS, N_WITH_CROWDING)
_PLAIN_VECTOR = N_WITH_CROWDING
#: Counts that are compared: a float32 logarithm told of a vector of 7.9999998, of 16.0000007 shares.
_COUNTS = [_VECTOR, _UNROLLED, _PARALLEL, _PRAGMA, _PLAIN_VECTOR]
#: Of each buffer: that one statement reads and writes it, and the iterations until an element comes again.
_UPDATED, _AGAIN = (slice(57 + column, 147, 18) for column in (2, 10))

#: Operations of a vector unit in a cycle, and independent ones that keep it busy.
_OPERATIONS_PER_CYCLE = 4.0
_IN_FLIGHT = 8.0
#: What an operation takes more where its accumulator is loaded and stored each time; so ranked the candidates
#: of four contractions, timed with AVX-512, best.
_SPILLED = 6.0
#: Vectors of a plain loop that LLVM computes at once.
_SIDE_BY_SIDE = 4
#: Of the registers, those that hold operands.
_OPERANDS = 4
#: Steps of a pragma from which code gets long, and what it takes more then. Of 54 tilings of nine workloads,
#: timed with 16, 64 and 512 on Zen 4, 512 was best in eight; six did not build in time, the others took a
#: fifth more, and twice as long to build.
LONG_UNROLL, _LONG = 128, 1.2
#: Of exp and its like; and of the `if_then_else` of a padding that is computed where it is read: what LLVM
#: keeps of it in the innermost loop is a mask, or nothing.
_CYCLES_PER_CALL, _CYCLES_PER_GUARD = 25.0, 1.0
#: A division of indices by a constant, that LLVM makes a product and a shift.
_CYCLES_PER_DIVISION = 0.3
#: Entering and leaving a loop over the cores.
_FORK_CYCLES = 8_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cpu:
    """A CPU as the estimate sees it; caches are a core's share."""

    cores: int
    #: float32 elements of a vector.
    lanes: int
    #: Vector registers.
    registers: int = 32
    #: (bytes that fit, cycles per byte that comes from behind it), from the first cache to the last.
    caches: tuple[tuple[float, float], ...] = ((40e3, 0.022), (0.8e6, 0.05), (12e6, 0.15))


class RooflineModel:
    """Expected times of candidates on one CPU."""

    def __init__(self, cpu: Cpu) -> None:
        self._cpu = cpu

    def expected(self, candidates: Sequence[Rows]) -> _Columns:
        """Float64 [n_candidates], in cycles; NaN for one without rows, or with rows of an older version."""
        return np.array([self._one(rows) for rows in candidates], dtype=np.float64)

    def _one(self, rows: Rows) -> float:
        if not len(rows) or rows.shape[1] not in (N_WITH_FOOTPRINTS, N_WITH_CROWDING, N_FEATURES):
            return float("nan")
        cpu = self._cpu
        known = np.nan_to_num(widened(rows).astype(np.float64))
        plain = np.exp2(np.minimum(known, 62)) - 1
        plain[:, _COUNTS] = np.rint(plain[:, _COUNTS])
        # LLVM lays a few vectors of a plain loop side by side.
        plain[:, _VECTOR] = np.maximum(
            plain[:, _VECTOR], np.minimum(plain[:, _PLAIN_VECTOR], _SIDE_BY_SIDE * cpu.lanes)
        )
        lanes = np.clip(plain[:, _VECTOR], 1, cpu.lanes)
        cycles = self._compute(plain, lanes) + self._traffic(plain, lanes)
        parallel = np.maximum(plain[:, _PARALLEL], 1)
        at_once = parallel / np.ceil(parallel / cpu.cores)
        return float((cycles / at_once + _FORK_CYCLES * (parallel > 1)).sum())

    def _compute(self, plain: _Columns, lanes: _Columns) -> _Columns:
        operations = plain[:, FLOAT_OPS].sum(axis=1) - plain[:, _MATH_CALLS]
        guarded = plain[:, _COMPARISONS].sum(axis=1) > 0
        cycles_per_call = np.where(guarded, _CYCLES_PER_GUARD / lanes, _CYCLES_PER_CALL)
        # What a pragma unrolls is LLVM's to place: some of it stays in registers. So does some of what it
        # unrolls by itself. A vector wider than the machine's is several.
        placed = np.where(plain[:, _PRAGMA] > 0, _IN_FLIGHT / 2, _IN_FLIGHT / 4)
        in_flight = np.maximum(plain[:, _UNROLLED], placed) * np.maximum(plain[:, _VECTOR] / lanes, 1)
        idle = np.maximum(1, _IN_FLIGHT / in_flight)
        slower = np.maximum(idle, np.where(self._spills(plain, lanes), _SPILLED, 1))
        slower *= np.where(plain[:, _PRAGMA] > LONG_UNROLL, _LONG, 1)
        calls = plain[:, _MATH_CALLS] * cycles_per_call
        # Beside operations, and in a loop that LLVM makes vectors of, divisions stand outside of the steps.
        changing = (operations == 0) & (plain[:, _PLAIN_VECTOR] == 0)
        placing = np.where(changing, plain[:, _DIVISIONS], 0) / lanes * _CYCLES_PER_DIVISION
        return operations / lanes / _OPERATIONS_PER_CYCLE * slower + calls + placing

    def _spills(self, plain: _Columns, lanes: _Columns) -> npt.NDArray[np.bool_]:
        """Whether a sum goes through more accumulators than there are registers, before it returns to one."""
        elements = np.where(plain[:, _UPDATED] > 0, plain[:, _AGAIN], 0).max(axis=1)
        # As of _COUNTS: of 28 registers came back 28.000002.
        return np.asarray(np.rint(elements) / lanes > self._cpu.registers - _OPERANDS)

    def _traffic(self, plain: _Columns, lanes: _Columns) -> _Columns:
        operations = plain[:, FLOAT_OPS].sum(axis=1)
        moves = plain[:, ITERATIONS] / lanes
        unique = plain[:, _UNIQUE_BYTES].sum(axis=1)
        return np.where(
            operations > 0, self._through_caches(plain, operations), moves + unique * self._behind(unique)
        )

    def _behind(self, unique: _Columns) -> _Columns:
        """Cycles per byte of data that are touched once, by what they fit into."""
        cycles = np.zeros_like(unique)
        for size, cost in self._cpu.caches:
            cycles += np.where(unique > size, cost, 0)
        return cycles

    def _through_caches(self, plain: _Columns, operations: _Columns) -> _Columns:
        """For each cache: the largest share of the work whose data fit, times how often there is one."""
        shares = np.exp2(-np.arange(1, N_HALVINGS + 1))
        intensity = np.maximum(plain[:, _HALVED], 1e-9)
        whole = np.maximum(plain[:, _UNIQUE_BYTES].sum(axis=1), 1)[:, None]
        touched = np.concatenate([whole, operations[:, None] * shares / intensity], axis=1)
        traffic = np.concatenate([whole, operations[:, None] / intensity], axis=1)
        crowding = np.pad(plain[:, _CROWDED], ((0, 0), (1, 0)))
        cycles = np.zeros(len(plain))
        for level, (size, cost) in enumerate(self._cpu.caches):
            # Pages lie anywhere in the caches behind the first.
            fits = (touched + crowding if level == 0 else touched) <= size
            first = np.where(fits.any(axis=1), fits.argmax(axis=1), touched.shape[1] - 1)
            cycles += traffic[np.arange(len(plain)), first] * cost
        return cycles
