"""Whether a device has become slower than it was. Pure: numbers in, a verdict out; no IO and no clock."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

#: So many runs of before make a history; with fewer nothing is said.
LEAST_HISTORY = 5
#: The history's median is over so many of the latest runs.
HISTORY_RUNS = 20
#: So many runs in a row have to be slow.
RUNS_TO_CONFIRM = 3


class Verdict(StrEnum):
    WELL = "well"
    #: Slow so far; another run is needed.
    SUSPECT = "suspect"
    DRIFTED = "drifted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    verdict: Verdict
    #: How much slower the fastest run is than the history's median (0.2: a fifth); None without a history.
    slower: float | None = None


def judge(history_secs: Sequence[float], run_secs: Sequence[float], *, limit: float) -> Judgement:
    """Judge runs of the reference kernel, oldest first, by those that were well before.

    A device has drifted when the last RUNS_TO_CONFIRM runs are all slower than the history's median by more
    than `limit`; one run that is not proves that the device still can, and the slow ones were disturbed.
    """
    if len(history_secs) < LEAST_HISTORY or not run_secs:
        return Judgement(verdict=Verdict.WELL)
    usual_secs = statistics.median(history_secs[-HISTORY_RUNS:])
    slower = min(run_secs) / usual_secs - 1.0
    if slower <= limit:
        return Judgement(verdict=Verdict.WELL, slower=slower)
    enough = len(run_secs) >= RUNS_TO_CONFIRM
    return Judgement(verdict=Verdict.DRIFTED if enough else Verdict.SUSPECT, slower=slower)
