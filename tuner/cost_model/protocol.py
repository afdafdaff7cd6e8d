"""The seam between a search and what it has learnt: fit on scored candidates, predict for new ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tuner.features import Rows


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sample:
    """A candidate with its score."""

    #: Feature rows, float32 [n_rows, n_features].
    rows: Rows
    #: Normalised throughput: best known latency / its latency; 1 = best known, 0 = failed.
    score: float
    #: True where it was stopped at the cut-off: `score` is then an upper bound.
    censored: bool = False


class CostModel(Protocol):
    """Implemented by the XGBoost model, and by fakes with a known ranking in tests."""

    def fit(self, samples: Sequence[Sample]) -> None:
        """Learn from all samples anew; the same samples in the same order give the same model."""
        ...

    def predict(self, candidates: Sequence[Rows]) -> npt.NDArray[np.float64] | None:
        """Float64 [n_candidates], higher is better; None while nothing has been learnt."""
        ...
