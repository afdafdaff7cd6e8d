"""Random programs until a batch is full, or until draw after draw brings nothing new."""

from collections.abc import Callable, Iterable
from typing import Any

from tuner.errors import SpaceError
from tuner.search.known import Known
from tuner.search.picks import Picks

#: A draw is so large at least, so that an empty one says something about the space.
MIN_DRAW = 64
#: So many empty draws in a row (320 samples at least) mean that nothing is left.
_EMPTY_DRAWS = 5


def fill(picks: Picks, *, known: Known, draw: Callable[[], Iterable[Any]]) -> None:
    """Take from `draw()` until the batch is full. A batch that stays empty means an exhausted space.

    Raises SpaceError where the space has never given a program: nothing passes its postprocs.
    """
    empty, ever = 0, known.n_programs
    while picks.missing and empty < _EMPTY_DRAWS:
        drawn = list(draw())
        ever += len(drawn)
        empty = 0 if picks.take(drawn) else empty + 1
    if not ever:
        raise SpaceError("no program of this design space passes its postprocs")
