"""Gradient-boosted trees over feature rows: a candidate's score is the sum of its rows' predictions.

The pack-sum form is TVM's (python/tvm/s_tir/meta_schedule/cost_model/xgb_model.py; Ansor, OSDI 2020, section
5.2). It differs from TVM's in four ways:

* it predicts from the first data on: no 128 random trials;
* a failure (score 0) has a weight: TVM weights by the score, so that failures teach nothing;
* a censored score is an upper bound: only a prediction above it is corrected;
* the hessian counts a candidate's rows, so a step cannot overshoot by their number, and a fixed number of
  rounds replaces early stopping on the training set.

With a prior the trees learn what it gets wrong, and before anything ran the prior alone scores.

The same samples give the same model, bit for bit, on one thread.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tuner.cost_model.prior import Prior
from tuner.cost_model.protocol import Sample
from tuner.features import Rows, widened

_SEED = 43
#: Weight of a sample whose score is smaller: hopeless programs matter, but less than good ones.
_MIN_WEIGHT = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class XGBoostOptions:
    """Names as in XGBoost's own parameters."""

    num_boost_round: int = 100
    max_depth: int = 6
    eta: float = 0.3
    nthread: int = 1


class XGBoostModel:
    """A CostModel."""

    def __init__(self, options: XGBoostOptions | None = None, *, prior: Prior | None = None) -> None:
        self._options = options or XGBoostOptions()
        self._prior = prior
        self._booster: Any = None

    def fit(self, samples: Sequence[Sample]) -> None:
        usable = [sample for sample in samples if len(sample.rows)]
        if self._prior is not None:
            self._prior.fit(usable)
        if not any(sample.score > 0 and not sample.censored for sample in usable):
            self._booster = None  # nothing ran: there is no scale to learn
            return
        import xgboost

        self._booster = xgboost.train(
            self._parameters(),
            self._matrix([sample.rows for sample in usable]),
            num_boost_round=self._options.num_boost_round,
            obj=_PackSumObjective(usable),
        )

    def predict(self, candidates: Sequence[Rows]) -> npt.NDArray[np.float64] | None:
        if self._booster is None and self._prior is None:
            return None
        scores = np.zeros(len(candidates), dtype=np.float64)
        filled = [index for index, rows in enumerate(candidates) if len(rows)]
        if not filled:
            return scores
        rows = [candidates[index] for index in filled]
        if self._booster is None:
            assert self._prior is not None
            scores[filled] = self._prior.scores(rows)
            return scores
        owner = np.repeat(filled, [len(each) for each in rows])
        np.add.at(scores, owner, self._booster.predict(self._matrix(rows)).astype(np.float64))
        return scores

    def _matrix(self, candidates: Sequence[Rows]) -> Any:
        """All rows; the prior's score of a candidate is where its first row starts from."""
        import xgboost

        rows = [widened(each) for each in candidates]
        margins = None
        if self._prior is not None:
            firsts = np.cumsum([0, *(len(each) for each in rows[:-1])])
            margins = np.zeros(sum(len(each) for each in rows), dtype=np.float32)
            margins[firsts] = self._prior.scores(candidates)
        return xgboost.DMatrix(np.concatenate(rows), base_margin=margins, nthread=self._options.nthread)

    def _parameters(self) -> dict[str, Any]:
        return {
            "max_depth": self._options.max_depth,
            "eta": self._options.eta,
            "gamma": 0.001,
            "min_child_weight": 0,
            "tree_method": "hist",
            "base_score": 0.0,
            "seed": _SEED,
            "nthread": self._options.nthread,
            "verbosity": 0,
        }


class _PackSumObjective:
    """Weighted squared error of a candidate's sum, told row by row; one-sided where the score is censored."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        counts = np.array([len(sample.rows) for sample in samples])
        self._owner = np.repeat(np.arange(len(samples)), counts)
        self._scores = np.array([sample.score for sample in samples])
        self._censored = np.array([sample.censored for sample in samples])
        self._weights = np.maximum(self._scores, _MIN_WEIGHT)
        self._hessian = (self._weights * counts)[self._owner]

    def __call__(
        self, predicted: npt.NDArray[np.float32], _data: Any
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        sums = np.bincount(self._owner, weights=predicted.ravel(), minlength=len(self._scores))
        error = sums - self._scores
        error = np.where(self._censored, np.maximum(error, 0.0), error)
        return (error * self._weights)[self._owner], self._hessian
