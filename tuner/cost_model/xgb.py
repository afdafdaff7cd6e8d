"""Gradient-boosted trees over a candidate's features: by how much it misses what a prior expects of it.

TVM's model sums a prediction for each row of features and knows nothing before its first 128 programs
(python/tvm/s_tir/meta_schedule/cost_model/xgb_model.py; Ansor, OSDI 2020, section 5.2). A search of 64 trials
is over by then. Ours

* learns the logarithm of a score, of a candidate as a whole: its heaviest store and what is expected of it;
* starts from the prior's score, which alone ranks what was never measured better than trees do that saw fifty
  programs: they start from it and may leave it only as far as samples tell, by more rounds for more samples;
* takes a failure, and a censored score, for an upper bound: only a prediction above it is corrected.

The same samples give the same model, bit for bit, on one thread.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tuner.cost_model.prior import Nothing, Prior
from tuner.cost_model.protocol import Sample
from tuner.features import Rows, heaviest, widened

_SEED = 43
#: A failure's score is at most this, as hopeless as the worst that runs.
_FAILED = 0.1
#: Rounds for each sample, and the fewest.
_ROUNDS_PER_SAMPLE, _LEAST_ROUNDS = 0.7, 10


@dataclass(frozen=True, slots=True, kw_only=True)
class XGBoostOptions:
    """Names as in XGBoost's own parameters."""

    #: The most; a model of few samples takes fewer.
    num_boost_round: int = 150
    max_depth: int = 6
    eta: float = 0.1
    reg_lambda: float = 3.0
    subsample: float = 0.7
    colsample_bynode: float = 0.4
    nthread: int = 1


class XGBoostModel:
    """A CostModel."""

    def __init__(self, options: XGBoostOptions | None = None, *, prior: Prior | None = None) -> None:
        self._options = options or XGBoostOptions()
        self._scores_untold = prior is not None
        self._prior = prior or Prior(Nothing())
        self._booster: Any = None

    def fit(self, samples: Sequence[Sample]) -> None:
        usable = [sample for sample in samples if len(sample.rows)]
        self._prior.fit(usable)
        if not any(sample.score > 0 and not sample.censored for sample in usable):
            self._booster = None  # nothing ran: there is no scale to learn
            return
        import xgboost

        rounds = max(_LEAST_ROUNDS, round(_ROUNDS_PER_SAMPLE * len(usable)))
        self._booster = xgboost.train(
            self._parameters(),
            self._matrix([sample.rows for sample in usable]),
            num_boost_round=min(rounds, self._options.num_boost_round),
            obj=_Objective(usable),
        )

    def predict(self, candidates: Sequence[Rows]) -> npt.NDArray[np.float64] | None:
        if self._booster is None and not self._scores_untold:
            return None
        scores = np.zeros(len(candidates), dtype=np.float64)
        filled = [index for index, rows in enumerate(candidates) if len(rows)]
        if not filled:
            return scores
        rows = [candidates[index] for index in filled]
        if self._booster is None:
            scores[filled] = self._prior.scores(rows)
        else:
            scores[filled] = np.exp(self._booster.predict(self._matrix(rows)).astype(np.float64))
        return scores

    def _matrix(self, candidates: Sequence[Rows]) -> Any:
        """A row of each: of its heaviest store, and the expected time; the prior's score is the margin."""
        import xgboost

        log_times = self._prior.log_times(candidates)
        rows = np.stack([widened(rows)[heaviest(rows)] for rows in candidates])
        return xgboost.DMatrix(
            np.column_stack([rows, log_times]).astype(np.float32),
            base_margin=self._prior.log_scores(log_times),
            nthread=self._options.nthread,
        )

    def _parameters(self) -> dict[str, Any]:
        return {
            "max_depth": self._options.max_depth,
            "eta": self._options.eta,
            "reg_lambda": self._options.reg_lambda,
            "subsample": self._options.subsample,
            "colsample_bynode": self._options.colsample_bynode,
            "tree_method": "hist",
            "base_score": 0.0,
            "seed": _SEED,
            "nthread": self._options.nthread,
            "verbosity": 0,
        }


class _Objective:
    """Squared error of the logarithms; one-sided where a score is an upper bound."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        self._logs = np.array([math.log(sample.score if sample.score > 0 else _FAILED) for sample in samples])
        self._bounds = np.array([sample.censored or not sample.score for sample in samples])

    def __call__(
        self, predicted: npt.NDArray[np.float32], _data: Any
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        error = predicted.ravel() - self._logs
        return np.where(self._bounds, np.maximum(error, 0.0), error), np.ones(len(error))
