"""How well a model ranks: of programs whose times stand in their rows."""

import numpy as np
import pytest

from bench.ranking import Timed, ranked
from tuner.features import N_FEATURES


class ByFirstColumn:
    """A CostModel that knows the truth, or its opposite."""

    def __init__(self, *, sign):
        self.sign = sign
        self.learnt = []

    def fit(self, samples):
        self.learnt = samples

    def predict(self, candidates):
        return np.array([-self.sign * rows[0, 0] for rows in candidates])


def programs(n):
    found = []
    for place in range(n):
        rows = np.zeros((1, N_FEATURES), dtype=np.float32)
        rows[0, 0] = place + 1.0
        found.append(Timed(rows=rows, secs=1e-3 * (place + 1), censored=place % 5 == 4))
    return found


@pytest.mark.parametrize(("sign", "correlation"), [(1, 1.0), (-1, -1.0)])
def test_the_others_are_ranked(sign, correlation):
    found, nearness = ranked(programs(40), ByFirstColumn(sign=sign), 16, 0)
    assert found == pytest.approx(correlation)
    assert (nearness == 1.0) == (sign == 1)


def test_scores_are_relative_to_the_best_that_was_learnt():
    model = ByFirstColumn(sign=1)
    ranked(programs(40), model, 16, 3)
    assert len(model.learnt) == 16
    assert max(sample.score for sample in model.learnt) == 1.0
    assert any(sample.censored for sample in model.learnt)
