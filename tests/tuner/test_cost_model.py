"""The cost model learns from the first batch on, ranks what it has not seen, and takes censored times."""

import numpy as np
from scipy.stats import spearmanr

from tuner.cost_model.protocol import Sample
from tuner.cost_model.xgb import XGBoostModel
from tuner.features import N_FEATURES

#: Columns: operations of a store, and some that are not.
OPERATIONS, FEATURES = 0, slice(57, 65)


def samples_of(n, *, seed=0):
    """Scores that follow from two features of a candidate's heaviest store, among others."""
    random = np.random.default_rng(seed)
    found = []
    for _ in range(n):
        rows = np.zeros((random.integers(2, 6), N_FEATURES), dtype=np.float32)
        rows[:, FEATURES] = random.normal(size=(len(rows), 8))
        heavy = rows[random.integers(len(rows))]
        heavy[OPERATIONS] = 30.0
        score = 1 / (1 + np.exp(-4 * heavy[FEATURES][:2].mean()))
        found.append(Sample(rows=rows, score=float(score)))
    return found


def rank_correlation(model, samples):
    return spearmanr(model.predict([s.rows for s in samples]), [s.score for s in samples]).statistic


def test_it_says_nothing_before_it_has_learnt():
    assert XGBoostModel().predict([np.ones((2, N_FEATURES), dtype=np.float32)]) is None


def test_it_ranks_unseen_candidates():
    model = XGBoostModel()
    model.fit(samples_of(400))
    assert rank_correlation(model, samples_of(200, seed=1)) > 0.7


def test_it_predicts_from_the_first_batch_on():
    model = XGBoostModel()
    model.fit(samples_of(16))
    assert rank_correlation(model, samples_of(16)) > 0.9


def test_the_same_samples_give_the_same_model():
    first, second = XGBoostModel(), XGBoostModel()
    first.fit(samples_of(64))
    second.fit(samples_of(64))
    unseen = [sample.rows for sample in samples_of(64, seed=1)]
    assert first.predict(unseen).tobytes() == second.predict(unseen).tobytes()


def failed(samples):
    """Those whose heaviest store has another feature above 0."""

    def fails(rows):
        return rows[rows[:, OPERATIONS].argmax(), FEATURES][2] > 0

    return [Sample(rows=s.rows, score=0.0 if fails(s.rows) else s.score) for s in samples]


def test_failures_teach():
    model = XGBoostModel()
    model.fit(failed(samples_of(400)))
    assert rank_correlation(model, failed(samples_of(200, seed=1))) > 0.6


def test_a_censored_score_is_only_an_upper_bound():
    """Half of the slow ones were stopped. Told as bounds they pull no prediction up; as scores, they do."""
    samples = samples_of(300)
    bound = 0.6
    stopped = [s.score < bound and index % 2 == 0 for index, s in enumerate(samples)]
    as_bounds, as_scores = (
        [
            Sample(rows=s.rows, score=bound if stop else s.score, censored=stop and censored)
            for s, stop in zip(samples, stopped, strict=True)
        ]
        for censored in (True, False)
    )
    slow = [s for s in samples_of(200, seed=1) if s.score < bound / 2]
    told_bounds, told_scores = XGBoostModel(), XGBoostModel()
    told_bounds.fit(as_bounds)
    told_scores.fit(as_scores)
    rows, truth = [s.rows for s in slow], np.array([s.score for s in slow])
    assert (
        np.abs(told_bounds.predict(rows) - truth).mean()
        < 0.8 * np.abs(told_scores.predict(rows) - truth).mean()
    )


def test_with_nothing_that_ran_there_is_no_scale():
    model = XGBoostModel()
    model.fit([Sample(rows=s.rows, score=0.0) for s in samples_of(8)])
    assert model.predict([samples_of(1)[0].rows]) is None


def test_a_candidate_without_rows_scores_zero():
    model = XGBoostModel()
    model.fit(samples_of(32))
    scores = model.predict([np.zeros((0, N_FEATURES), dtype=np.float32), samples_of(1)[0].rows])
    assert scores[0] == 0
    assert scores[1] != 0
