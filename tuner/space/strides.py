"""How far apart an access is from one step of a block's axes to the next."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tuner.addresses import UnknownError, address_of, value_of


def strides_of(
    node: Any, buffer: Any, indices: Sequence[Any], *, places: Sequence[int] | None = None
) -> list[int]:
    """Bytes from one step of each axis to the next; of the axes at `places` alone, the others at zero.

    Raises UnknownError where steps differ.
    """
    places = range(len(node.iter_vars)) if places is None else places
    n_axes = len(places)
    extents = np.array([int(node.iter_vars[place].dom.extent) for place in places])
    # The origin, a step of each axis, and the last element of each.
    points = np.concatenate([np.zeros((1, n_axes)), np.eye(n_axes), np.diag(extents - 1)]).astype(np.int64)
    values = {axis.var: np.zeros(len(points), np.int64) for axis in node.iter_vars}
    values |= {node.iter_vars[place].var: points[:, at] for at, place in enumerate(places)}
    addresses = address_of(buffer, [value_of(index, values) for index in indices], len(points))
    steps = addresses[1 : 1 + n_axes] - addresses[0]
    ends = addresses[1 + n_axes :] - addresses[0]
    if np.any(steps[extents > 1] * (extents - 1)[extents > 1] != ends[extents > 1]):
        raise UnknownError
    return [int(step) for step in steps]
