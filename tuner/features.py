"""What the cost model sees of a candidate: TVM's PerStoreFeature rows, footprints, and their packed form.

One row per buffer store of the scheduled module, float32 [n_rows, N_FEATURES]; most entries are zero, so
packed they take a few hundred bytes. Nothing is learnt here.

TVM samples the curve of arithmetic intensity (operations per byte touched at least once) at even steps of a
store's work, so nine of its ten samples lie in the outermost loops. What fits into a cache is a thousandth of
the work and less: we ask for many samples and append those at 1/2, 1/4, ... 1/2^12 of the work; for the
heaviest store, at the same shares of its work, how far its operands crowd a few sets of a cache; and of each
store the steps of a loop that LLVM makes vectors of by itself.
"""

import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tuner.crowding import crowding
from tuner.plain_vectors import plain_vectors

Rows = npt.NDArray[np.float32]

#: Columns of a PerStoreFeature row before and after its curve (per_store_feature.cc, groups 1-2 and 4-5).
_BEFORE, _AFTER = 147, 7
#: TVM's own samples of the curve.
_CURVE = 10
#: Halvings of the work that the appended columns stand for.
N_HALVINGS = 12
_SAMPLES = 1 << N_HALVINGS
_SHARES = tuple(2.0**-halving for halving in range(1, N_HALVINGS + 1))
#: Columns of TVM's row, of a row with footprints, with crowded sets, and of ours.
N_STOCK = _BEFORE + _CURVE + _AFTER
N_WITH_FOOTPRINTS = N_STOCK + N_HALVINGS
N_WITH_CROWDING = N_WITH_FOOTPRINTS + N_HALVINGS
N_FEATURES = N_WITH_CROWDING + 1
#: Counts of operations, and of what runs how often: log2(1 + x) stands in each.
FLOAT_OPS, ITERATIONS = slice(0, 7), 161

_HEAD = struct.Struct("<II")
#: No candidate has more: a guard against a row that is not ours.
_MAX_BYTES = 64 << 20


class FeatureError(ValueError):
    """Packed features do not unpack: {0}."""


def extract(context: Any, candidates: Sequence[Any]) -> list[Rows]:
    """Feature rows of TVM MeasureCandidates, in a TuneContext; an empty array where it has no store."""
    from tvm.s_tir.meta_schedule.feature_extractor import PerStoreFeature

    if not candidates:
        return []
    extractor = PerStoreFeature(arith_intensity_curve_num_samples=_SAMPLES)
    extracted = extractor.extract_from(context, list(candidates))
    return [_columns(rows.numpy(), candidate) for rows, candidate in zip(extracted, candidates, strict=True)]


def heaviest(rows: Rows) -> int:
    """The row of the store with the most operations, moves counted as one each."""
    plain = np.exp2(np.minimum(rows.astype(np.float64), 62)) - 1
    return int((plain[:, FLOAT_OPS].sum(axis=1) + plain[:, ITERATIONS]).argmax())


def _columns(rows: npt.NDArray[np.float64], candidate: Any) -> Rows:
    """Of rows with the whole curve: TVM's columns, intensity and crowding at each halving, plain vectors."""
    curve = rows[:, _BEFORE : _BEFORE + _SAMPLES]
    even = [round(step * _SAMPLES / _CURVE) - 1 for step in range(1, _CURVE + 1)]
    halved = [(_SAMPLES >> halving) - 1 for halving in range(1, N_HALVINGS + 1)]
    after = rows[:, _BEFORE + _SAMPLES :]
    ours = np.zeros((len(rows), N_FEATURES - N_WITH_FOOTPRINTS))
    parts = (rows[:, :_BEFORE], curve[:, even], after, curve[:, halved], ours)
    found = np.ascontiguousarray(np.concatenate(parts, axis=1), dtype=np.float32)
    if len(found):
        mod = candidate.sch.mod
        crowded = np.log2(1 + crowding(mod, _SHARES))
        found[heaviest(found), N_WITH_FOOTPRINTS:N_WITH_CROWDING] = crowded
        steps = plain_vectors(mod)
        if len(steps) == len(found):  # a row for each buffer
            found[:, N_WITH_CROWDING] = np.log2(1 + np.array(steps))
    return found


def widened(rows: Rows) -> Rows:
    """Rows that an older version stored, with NaN for the columns that it did not know."""
    missing = N_FEATURES - rows.shape[1]
    if missing <= 0 or not len(rows):
        return rows
    return np.pad(rows, ((0, 0), (0, missing)), constant_values=np.nan)


def pack(rows: Rows) -> bytes:
    """Compress (n_rows, n_features, float32 little-endian values)."""
    if rows.ndim != 2:
        raise FeatureError(f"feature rows have {rows.ndim} dimensions, not two")
    return zlib.compress(_HEAD.pack(*rows.shape) + rows.astype("<f4").tobytes(), 6)


def unpack(data: bytes) -> Rows:
    """The rows again, bit for bit; FeatureError where the bytes are not packed features."""
    try:
        inflater = zlib.decompressobj()
        raw = inflater.decompress(data, _MAX_BYTES)
        n_rows, n_features = _HEAD.unpack_from(raw)
    except (zlib.error, struct.error) as error:
        raise FeatureError(f"packed features do not unpack: {error}") from error
    if inflater.unconsumed_tail or len(raw) != _HEAD.size + 4 * n_rows * n_features:
        raise FeatureError(f"packed features of {len(raw)} bytes are not {n_rows} x {n_features} float32")
    values = np.frombuffer(raw, dtype="<f4", offset=_HEAD.size).reshape(n_rows, n_features)
    return values.astype(np.float32)
