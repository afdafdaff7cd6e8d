"""How far apart an access is from one step of a block's axes to the next."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tuner.addresses import UnknownError, address_of, value_of
from tuner.expressions import places_in


def strides_of(
    node: Any, buffer: Any, indices: Sequence[Any], *, places: Sequence[int] | None = None
) -> list[int]:
    """Bytes from one step of each axis to the next; of the axes at `places` alone, the others at zero.

    Raises UnknownError where steps differ.
    """
    steps = steps_of(node, buffer, indices, places=places)
    if None in steps:
        raise UnknownError
    return [step for step in steps if step is not None]


def steps_of(
    node: Any, buffer: Any, indices: Sequence[Any], *, places: Sequence[int] | None = None
) -> list[int | None]:
    """As `strides_of`; None for an axis whose steps differ, or of an index that is looked up elsewhere."""
    places = range(len(node.iter_vars)) if places is None else places
    n_axes = len(places)
    extents = np.array([int(node.iter_vars[place].dom.extent) for place in places])
    # The origin, a step of each axis, and the last element of each.
    points = np.concatenate([np.zeros((1, n_axes)), np.eye(n_axes), np.diag(extents - 1)]).astype(np.int64)
    values = {axis.var: np.zeros(len(points), np.int64) for axis in node.iter_vars}
    values |= {node.iter_vars[place].var: points[:, at] for at, place in enumerate(places)}
    understood: list[Any] = []
    unknown: set[int] = set()
    for index in indices:
        try:
            understood.append(value_of(index, values))
        except UnknownError:
            understood.append(0)
            unknown |= places_in(node, [index])
    addresses = address_of(buffer, understood, len(points))
    steps = addresses[1 : 1 + n_axes] - addresses[0]
    ends = addresses[1 + n_axes :] - addresses[0]
    differ = (extents > 1) & (steps * (extents - 1) != ends)
    return [
        None if differs or place in unknown else int(step)
        for place, step, differs in zip(places, steps, differ, strict=True)
    ]
