"""Random programs until a batch is full, or until draw after draw brings nothing new."""

from tuner.errors import SpaceError
from tuner.search.drawing import Drawing
from tuner.search.known import Known
from tuner.search.picks import Picks

#: Known programs in a row after which nothing is left: twice as many as are known, within these bounds. If
#: one of n + 1 equally likely programs is still unknown, it stays unseen with probability e^-2 at most.
_MIN_USELESS, _MAX_USELESS = 128, 1024
#: So many draws in a row that give no valid program at all mean the same.
_EMPTY_DRAWS = 5


def fill(picks: Picks, *, known: Known, drawing: Drawing) -> None:
    """Draw until the batch is full. A batch that stays empty means an exhausted space.

    Raises SpaceError where the space has never given a program: nothing passes its postprocs.
    """
    empty, ever = 0, known.n_programs + picks.picked
    enough = max(_MIN_USELESS, min(2 * known.n_programs, _MAX_USELESS))
    while picks.missing and not drawing.is_dry and drawing.useless < enough and empty < _EMPTY_DRAWS:
        useless = drawing.useless
        drawn = drawing.draw(picks.missing)
        picks.take(drawn)
        ever += len(drawn)
        empty = 0 if drawn or drawing.useless > useless else empty + 1
    if not ever:
        refusing = ", ".join(sorted(drawing.refused_by)) or "none can be replayed"
        raise SpaceError(f"no program of this design space passes its postprocs: {refusing}")
