"""How far apart an access is from one step of a block's axes to the next."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tuner.addresses import UnknownError, address_of, value_of


def strides_of(node: Any, buffer: Any, indices: Sequence[Any], *, first: int = 0) -> list[int]:
    """Bytes from one step of each axis to the next, of the axes from `first` on; the others stay at zero.

    Raises UnknownError where steps differ.
    """
    extents = np.array([int(axis.dom.extent) for axis in node.iter_vars])[first:]
    n_axes = len(extents)
    # The origin, a step of each axis, and the last element of each.
    places = np.concatenate([np.zeros((1, n_axes)), np.eye(n_axes), np.diag(extents - 1)]).astype(np.int64)
    fixed = np.zeros(len(places), np.int64)
    values = {
        axis.var: places[:, at - first] if at >= first else fixed for at, axis in enumerate(node.iter_vars)
    }
    addresses = address_of(buffer, [value_of(index, values) for index in indices], len(places))
    steps = addresses[1 : 1 + n_axes] - addresses[0]
    ends = addresses[1 + n_axes :] - addresses[0]
    if np.any(steps[extents > 1] * (extents - 1)[extents > 1] != ends[extents > 1]):
        raise UnknownError
    return [int(step) for step in steps]
