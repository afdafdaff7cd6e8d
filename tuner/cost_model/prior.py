"""Scores from expected times, brought to the scale of what was measured: where the trees start from."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tuner.cost_model.protocol import Sample
from tuner.features import Rows

#: Weight of a sample whose score is smaller, as in tuner.cost_model.xgb.
_MIN_WEIGHT = 0.1
#: Fewer samples tell no trend; the expectation is taken at its word.
_ENOUGH = 6
#: Added to the expectation's variance: a trend through points that hardly differ says little.
_RIDGE = 0.02


class Expectation(Protocol):
    """Implemented by the roofline, and by fakes with a known ranking in tests."""

    def expected(self, candidates: Sequence[Rows]) -> npt.NDArray[np.float64]:
        """Float64 [n_candidates], times on any scale; NaN where nothing can be said."""
        ...


class Prior:
    """Scores as those of samples: 1 is the best known."""

    def __init__(self, expectation: Expectation) -> None:
        self._expectation = expectation
        self._best: float | None = None
        self._level, self._slope = 0.0, 1.0

    def fit(self, samples: Sequence[Sample]) -> None:
        """Weighted least squares through what was measured to its end; a falling trend counts as none."""
        times = self._expectation.expected([sample.rows for sample in samples])
        known = np.array([not sample.censored for sample in samples], dtype=bool) & np.isfinite(times)
        self._best, self._level, self._slope = None, 0.0, 1.0
        if not known.any():
            return
        self._best = float(times[known].min())
        if known.sum() < _ENOUGH:
            return
        scores = np.array([sample.score for sample in samples])[known]
        weights = np.maximum(scores, _MIN_WEIGHT)
        weights /= weights.sum()
        hopes = self._best / times[known]
        mean_hope, mean_score = float(weights @ hopes), float(weights @ scores)
        spread = float(weights @ (hopes - mean_hope) ** 2) + _RIDGE
        slope = float(weights @ ((hopes - mean_hope) * (scores - mean_score))) / spread
        self._slope = min(max(slope, 0.0), 1.0)
        self._level = mean_score - self._slope * mean_hope

    def scores(self, candidates: Sequence[Rows]) -> npt.NDArray[np.float64]:
        """Float64 [n_candidates]. Before a fit the best of the first candidates asked about scores 1."""
        times = self._expectation.expected(candidates)
        finite = times[np.isfinite(times)]
        if self._best is None and len(finite):
            self._best = float(finite.min())
        hopes = np.full(len(times), np.nan) if self._best is None else self._best / times
        middle = float(np.nanmean(hopes)) if len(finite) else 0.0
        return self._level + self._slope * np.nan_to_num(hopes, nan=middle)
