"""Scores from expected times, brought to the scale of what was measured: where the trees start from."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tuner.cost_model.protocol import Sample
from tuner.features import Rows

_Vector = npt.NDArray[np.float64]

#: How firmly an expectation is believed that says twice the time where twice was measured: the sum of
#: squares, in logarithms, that measured times must spread over to weigh as much. Some 13 programs at random.
_BELIEF = 30.0


class Expectation(Protocol):
    """Implemented by the roofline, and by fakes with a known ranking in tests."""

    def expected(self, candidates: Sequence[Rows]) -> npt.NDArray[np.float64]:
        """Float64 [n_candidates], times on any scale; NaN where nothing can be said."""
        ...


class Nothing:
    """An Expectation of a target that nobody knows: the same of every candidate."""

    def expected(self, candidates: Sequence[Rows]) -> npt.NDArray[np.float64]:
        return np.ones(len(candidates))


class Prior:
    """Scores as those of samples: 1 is the best known. A trend of times in logarithms."""

    def __init__(self, expectation: Expectation) -> None:
        self._expectation = expectation
        self._level: float | None = None
        self._slope, self._middle = 1.0, 0.0

    def fit(self, samples: Sequence[Sample]) -> None:
        """Ridge regression through what was measured to its end; a falling trend counts as none."""
        known = [sample for sample in samples if sample.score > 0 and not sample.censored]
        logs = self.log_times([sample.rows for sample in known])
        scores = np.log([sample.score for sample in known])[np.isfinite(logs)]
        logs = logs[np.isfinite(logs)]
        self._level, self._slope = None, 1.0
        if not len(logs):
            return
        self._middle = float(logs.mean())
        off = logs - self._middle
        slope = float(_BELIEF - off @ (scores - scores.mean())) / (_BELIEF + float(off @ off))
        self._slope = max(slope, 0.0)
        self._level = float(scores.mean())

    def scores(self, candidates: Sequence[Rows]) -> _Vector:
        """Float64 [n_candidates]."""
        return np.exp(self.log_scores(self.log_times(candidates)))

    def log_times(self, candidates: Sequence[Rows]) -> _Vector:
        """Float64 [n_candidates], NaN where nothing can be said."""
        return np.log(self._expectation.expected(candidates))

    def log_scores(self, log_times: _Vector) -> _Vector:
        """Float64 as many. Before a fit the best of the first candidates asked about scores 1."""
        if self._level is None:
            said = log_times[np.isfinite(log_times)]
            self._level, self._middle = 0.0, float(said.min()) if len(said) else 0.0
        return self._level - self._slope * (np.nan_to_num(log_times, nan=self._middle) - self._middle)
