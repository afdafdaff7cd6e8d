"""Evolutionary search: random at first, then what the cost model scores well; failures are scores too."""

import dataclasses
import itertools
import json
from statistics import mean

import numpy as np

from tests.tuner.driving import latency_of, measured, open_search, play
from tuner.cost_model.for_target import cost_model
from tuner.search import evolutionary
from tuner.search.genome import genome_of, neighbours, sketch_of
from tuner.search.known import best_traces, samples_of
from tuner.search.replay import Replayer
from tuner.target import make_target


class FeatureRank:
    """A CostModel that knows the ranking: fewer stores are better."""

    def __init__(self):
        self.n_fitted = []

    def fit(self, samples):
        self.n_fitted.append(len(samples))

    def predict(self, candidates):
        return np.array([1.0 / len(rows) for rows in candidates])


def test_a_first_batch_is_random_and_unscored(workloads, llvm):
    (batch,) = play(open_search("evolutionary", workloads["mm"], llvm), rounds=1)
    assert [candidate.predicted_score for candidate in batch] == [None] * 8


def test_with_an_expectation_a_first_batch_is_scored_and_holds_each_design_space(workloads, llvm):
    model = cost_model(make_target(llvm))
    search = open_search("evolutionary", workloads["mm"], llvm, model=model)
    (batch,) = play(search, rounds=1)
    assert all(candidate.predicted_score is not None for candidate in batch)
    drawn = {sketch_of(candidate.trace) for candidate in batch}
    assert len(drawn) == 3  # stock's sketches of a product
    assert best_traces([measured(candidate, round_=0) for candidate in batch], count=1)


def test_a_design_space_that_found_no_place_in_the_first_batch_is_met_soon(workloads, llvm):
    """One in each batch: what is expected of programs of different design spaces is not sure."""
    search = open_search(
        *("evolutionary", workloads["mm"], llvm),
        space={"rules": "tilefarm"},
        model=cost_model(make_target(llvm)),
        result_lag=1,
    )
    n_spaces = len(search._spaces)
    batches = play(search, rounds=n_spaces, count=4)
    met = [len({sketch_of(each.trace) for batch in batches[:n] for each in batch}) for n in (1, n_spaces)]
    assert met[0] < n_spaces == met[1]


def test_batches_before_the_first_result_choose_among_the_same_programs(workloads, llvm, monkeypatch):
    """They cost one draw together, and a search that begins anew in between chooses alike."""
    replayed = []

    class Counted(Replayer):
        def __call__(self, genome):
            replayed.append(genome)
            return super().__call__(genome)

    monkeypatch.setattr(evolutionary, "Replayer", Counted)

    def search(**more):
        model = cost_model(make_target(llvm))
        return open_search("evolutionary", workloads["mm"], llvm, model=model, **more)

    going_on = search()
    first = going_on.suggest(8, round_=0).candidates
    n_replayed = len(replayed)
    second = going_on.suggest(8, round_=1).candidates
    assert n_replayed == len(replayed) > 16
    assert (
        search(known=[measured(each, round_=0) for each in first]).suggest(8, round_=1).candidates == second
    )
    assert search(pending=[each.program_hash for each in first]).suggest(8, round_=1).candidates == second
    assert not {each.program_hash for each in first} & {each.program_hash for each in second}


def test_a_first_batch_holds_many_tiles(workloads, llvm):
    """Neighbours take nearly the same time: a batch of them would teach little."""
    model = cost_model(make_target(llvm))
    (batch,) = play(open_search("evolutionary", workloads["mm"], llvm, model=model), rounds=1)
    genomes = [genome_of(candidate.trace) for candidate in batch]
    differing = [
        sum(one != other for one, other in zip(first.decisions, second.decisions, strict=True))
        for first, second in itertools.combinations(genomes, 2)
        if first.sketch == second.sketch
    ]
    assert min(differing) >= 2


def test_it_scores_and_improves_once_it_has_learnt(workloads, llvm):
    options = {"result_lag": 1, "population_size": 64, "genetic_num_iters": 3}
    learnt = play(open_search("evolutionary", workloads["mm"], llvm, **options), rounds=6)
    drawn = play(open_search("random", workloads["mm"], llvm), rounds=6)
    assert all(candidate.predicted_score is not None for batch in learnt[1:] for candidate in batch)
    last, unlearnt = (
        mean(latency_of(candidate.trace) for batch in batches[3:] for candidate in batch)
        for batches in (learnt, drawn)
    )
    assert last < 0.75 * unlearnt


def test_the_model_is_asked_and_its_scores_are_told(workloads, llvm):
    model = FeatureRank()
    search = open_search("evolutionary", workloads["mm"], llvm, model=model, result_lag=1)
    play(search, rounds=3)
    assert model.n_fitted == [0, 8, 16]


def test_a_seed_trace_that_does_not_fit_is_left_out(workloads, llvm):
    search = open_search("evolutionary", workloads["mm"], llvm, result_lag=1)
    (batch,) = play(search, rounds=1)
    stranger = dataclasses.replace(
        measured(batch[0], round_=0, latency_secs=1e-9),
        trace=json.dumps([[["GetSBlock", [], ["Nope", "main"], ["b0"]]], []]),
        trace_hash="0" * 64,
        program_hash="0" * 16,
    )
    search.update([stranger])
    assert len(search.suggest(8, round_=1).candidates) == 8


def test_a_share_of_a_batch_are_neighbours_of_the_best(workloads, llvm):
    search = open_search("evolutionary", workloads["mm"], llvm, result_lag=1, descent_ratio=0.5)
    first, second = play(search, rounds=2)
    best = best_traces([measured(candidate, round_=0) for candidate in first], count=3)
    near = {each for trace in best for each in neighbours(genome_of(trace))}
    assert sum(genome_of(candidate.trace) in near for candidate in second) >= 4


def test_failures_and_cut_offs_become_scores(workloads, llvm):
    (batch,) = play(open_search("evolutionary", workloads["mm"], llvm), rounds=1)
    results = [
        measured(batch[0], round_=0, latency_secs=2e-3),
        measured(batch[1], round_=0, latency_secs=4e-3),
        measured(batch[2], round_=0, latency_secs=1e-3, censored=True),
        dataclasses.replace(measured(batch[3], round_=0), latency_secs=None),
    ]
    samples = samples_of(results)
    assert [sample.score for sample in samples] == [1.0, 0.5, 2.0, 0.0]
    assert [sample.censored for sample in samples] == [False, False, True, False]
    assert best_traces(results, count=8) == [batch[0].trace, batch[1].trace]


def test_with_failures_only_it_goes_on_at_random(workloads, llvm):
    search = open_search("evolutionary", workloads["mm"], llvm, result_lag=1)
    batch = search.suggest(8, round_=0).candidates
    search.update([dataclasses.replace(measured(c, round_=0), latency_secs=None) for c in batch])
    again = search.suggest(8, round_=1).candidates
    assert len(again) == 8
    assert [candidate.predicted_score for candidate in again] == [None] * 8
