"""Features travel packed and come back bit for bit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.features import N_FEATURES, N_STOCK, FeatureError, pack, unpack, widened


@given(st.integers(0, 9), st.integers(0, 170), st.integers(0, 1 << 30))
def test_packed_features_come_back_bit_for_bit(n_rows, n_features, seed):
    rows = np.random.default_rng(seed).normal(size=(n_rows, n_features)).astype(np.float32)
    assert unpack(pack(rows)).shape == rows.shape
    assert unpack(pack(rows)).tobytes() == rows.tobytes()


def test_mostly_zero_rows_pack_small():
    rows = np.zeros((8, 164), dtype=np.float32)
    rows[:, 3] = 1.5
    assert len(pack(rows)) < rows.nbytes / 40


def test_rows_of_an_older_version_are_widened_by_what_is_not_known():
    old = np.ones((3, N_STOCK), dtype=np.float32)
    assert np.isnan(widened(old)[:, N_STOCK:]).all()
    assert widened(old)[:, :N_STOCK].tobytes() == old.tobytes()
    new = np.ones((3, N_FEATURES), dtype=np.float32)
    assert widened(new) is new


@pytest.mark.parametrize("data", [b"", b"junk", pack(np.zeros((2, 2), dtype=np.float32))[:-6]])
def test_what_is_not_packed_features_is_refused(data):
    with pytest.raises(FeatureError):
        unpack(data)
