"""Which operands crowd a few sets of the first cache: those whose rows lie a multiple of 4 KiB apart.

Where a first cache keeps a line is decided by its address modulo 4 KiB. Rows of a large matrix often lie a
power of two apart; they share a few sets, so that a piece of it does not stay in a cache that would hold ten
such pieces (Lam, Rothberg and Wolf, ASPLOS 1991). TVM's PerStoreFeature counts bytes and lines, and does not
see where they lie. Only parameters are looked at: they lie as their caller holds them, and what a schedule
copies lies closer.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tuner.addresses import (
    LINE_BYTES,
    PERIOD_BYTES,
    Ints,
    UnknownError,
    lines_of,
)
from tuner.leaves import Leaf, leaves

#: Steps of a loop that are looked at; the others are expected to go on like them.
_STEPS = PERIOD_BYTES // LINE_BYTES
#: Addresses that are told one from the other; how many more there are is estimated.
_ADDRESSES = 1024


def crowding(mod: Any, shares: Sequence[float]) -> npt.NDArray[np.float64]:
    """Bytes that a scheduled module's heaviest block seems to touch more than it does, float64 [n_shares].

    For each share of its work (0 to 1): as many bytes more as would fill a first cache's sets evenly as far
    as the crowded ones are filled. 0 where no set is crowded, or where an index is not understood.
    """
    try:
        leaf = max(leaves(mod), key=lambda leaf: leaf.weight)
        extents = leaf.extents
        found = np.zeros(1 + len(extents))
        for offsets in _accesses(mod["main"], leaf):
            found += _of_access(offsets, extents)
    except (UnknownError, ValueError, OverflowError):
        return np.zeros(len(shares))
    inside = np.cumsum(np.log2([1, *extents[::-1]]))
    wanted = inside[-1] + np.log2(shares)
    return np.exp2(np.interp(wanted, inside, np.log2(1 + found))) - 1


def _accesses(function: Any, leaf: Leaf) -> Iterator[list[Ints]]:
    """Of each parameter's access: for each loop the byte offsets of its first steps from the first."""
    places = _probes(leaf.extents)
    known = {str(parameter.name) for parameter in function.params}
    seen: set[bytes] = set()
    for buffer, indices in leaf.touched():
        if str(buffer.name) not in known:
            continue
        address = leaf.addresses(buffer, indices, places)
        if address.tobytes() not in seen:
            seen.add(address.tobytes())
            steps = np.split(address[1:], np.cumsum([min(extent, _STEPS) for extent in leaf.extents])[:-1])
            yield [each - address[0] for each in steps]


def _probes(extents: Sequence[int]) -> Ints:
    """[n_loops, n_points]: the first point is where all loops begin, then each loop goes its first steps."""
    steps = [np.arange(min(extent, _STEPS)) for extent in extents]
    places = np.zeros((len(extents), 1 + sum(len(each) for each in steps)), dtype=np.int64)
    at = 1
    for number, each in enumerate(steps):
        places[number, at : at + len(each)] = each
        at += len(each)
    return places


def _of_access(offsets: Sequence[Ints], extents: Sequence[int]) -> npt.NDArray[np.float64]:
    """Bytes that seem to be touched more, inside each number of loops from the innermost, [1 + n_loops]."""
    touched = _Touched()
    found = [0.0]
    for steps, extent in zip(offsets[::-1], extents[::-1], strict=True):
        if extent > 1:
            touched.go(steps, extent)
        found.append(touched.excess_bytes)
    return np.array(found)


class _Touched:
    """The lines of an access inside the loops seen so far, and the sets that they lie in."""

    def __init__(self) -> None:
        #: Those told one from the other, in bytes; and how many lines there are for each line of them.
        self._addresses: Ints = np.zeros(1, dtype=np.int64)
        self._times = 1.0
        self._sets: Ints = np.zeros(1, dtype=np.int64)

    @property
    def excess_bytes(self) -> float:
        n_lines = self._times * len(lines_of(self._addresses))
        per_set = n_lines / len(self._sets)
        return per_set * PERIOD_BYTES - n_lines * LINE_BYTES if per_set > 1 else 0.0

    def go(self, steps: Ints, extent: int) -> None:
        """Through one more loop: `steps` are the offsets of its first steps."""
        if self._times == 1 and len(self._addresses) * len(steps) <= _ADDRESSES and len(steps) == extent:
            self._addresses = np.unique(np.add.outer(self._addresses, steps))
            self._sets = np.unique(lines_of(self._addresses % PERIOD_BYTES))
            return
        now, next_ = lines_of(self._addresses), lines_of(self._addresses + steps[1])
        self._times *= 1 + (extent - 1) * (1 - np.isin(next_, now).mean())
        both = np.add.outer(self._sets * LINE_BYTES, steps) % PERIOD_BYTES
        self._sets = np.unique(both // LINE_BYTES)
