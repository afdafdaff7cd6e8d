"""What the cost model sees of a candidate: TVM's PerStoreFeature rows, and their packed form for a row.

One row per buffer store of the scheduled module, float32 [n_rows, 164]; most entries are zero, so packed they
take a few hundred bytes. Nothing is learnt here.
"""

import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.float32]

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
    extracted = PerStoreFeature().extract_from(context, list(candidates))
    return [np.ascontiguousarray(rows.numpy(), dtype=np.float32) for rows in extracted]


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
