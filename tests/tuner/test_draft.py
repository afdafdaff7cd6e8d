"""Genomes, their variation, and the draft model that ranks them: numbers only, no schedule."""

import json
import math
from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tuner.search.draft import DraftModel, Evolution
from tuner.search.genome import Genome, Sketch, Variation, genome_of, neighbours

INSTRUCTIONS = [
    ["GetSBlock", [], ["C", "main"], ["b0"]],
    ["GetLoops", ["b0"], [], ["l1", "l2"]],
    ["SamplePerfectTile", ["l1"], [3, 16], ["v3", "v4", "v5"]],
    ["SampleCategorical", [], [[0, 16, 64], [0.25, 0.5, 0.25]], ["v6"]],
    ["SampleComputeLocation", ["b0"], [], ["l7"]],
]
POSTPROC = [["EnterPostproc", [], [], []], ["SampleCategorical", [], [[1, 2], [0.5, 0.5]], ["v8"]]]


def genome(*tile, unroll=0, location=-1):
    return Genome(Sketch(json.dumps(INSTRUCTIONS)), (tile, unroll, location))


def quality(of):
    """Best where the innermost factor is 8 and the unroll is the second."""
    tile, unroll, _ = of.decisions
    return 1.0 / (1 + abs(math.log2(tile[-1]) - 3) + (unroll != 1))


def test_a_trace_gives_its_genome_without_postprocs_and_back():
    decisions = [[2, [4, 2, 8]], [3, 1], [4, -1]]
    found = genome_of(json.dumps([INSTRUCTIONS + POSTPROC, [*decisions, [6, 0]]]))
    assert found is not None
    assert found.decisions == ((4, 2, 8), 1, -1)
    assert found.trace() == [INSTRUCTIONS, decisions]


def test_a_trace_that_lacks_a_decision_has_no_genome():
    assert genome_of(json.dumps([INSTRUCTIONS, [[2, [4, 2, 8]], [3, 1]]])) is None


def test_unrolling_by_hundreds_is_drawn_seldom():
    sample = ["SampleCategorical", [], [[0, 16, 64, 512], [0.25] * 4], ["v0"]]
    annotate = ["Annotate", ["b0", "v0"], ["meta_schedule.unroll_explicit"], []]
    (site,) = Sketch(json.dumps([sample, annotate])).sites
    assert site.weights == (0.25, 0.25, 0.25, 0.05)
    (alike,) = Sketch(json.dumps([sample])).sites
    assert alike.weights == (0.25, 0.25, 0.25, 0.25)


@given(st.lists(st.sampled_from([1, 2, 3, 4, 5, 8, 16]), min_size=3, max_size=3), st.integers(0, 2**32))
def test_a_mutated_tile_keeps_its_extent_and_its_innermost_bound(factors, seed):
    parent = genome(*factors)
    variation = Variation([parent], random=Random(seed), weights={"SamplePerfectTile": 1.0})
    child = variation.mutated(parent)
    assert math.prod(child.decisions[0]) == math.prod(factors)
    assert child.decisions[0][-1] <= 16
    assert child.decisions[1:] == parent.decisions[1:]


def test_neighbours_differ_in_one_step_of_one_decision():
    found = [each.decisions for each in neighbours(genome(6, 1, 16, unroll=1))]
    tiles = {tile for tile, unroll, _ in found if unroll == 1}
    assert tiles == {(3, 2, 16), (2, 3, 16), (12, 1, 8), (6, 2, 8)}  # the innermost is at its bound
    assert [unroll for tile, unroll, _ in found if tile == (6, 1, 16)] == [0, 2]
    assert {location for _, _, location in found} == {-1}


def test_a_prime_extent_still_moves_and_an_extent_of_one_does_not():
    random = Random(0)
    prime = genome(1, 1, 7)
    variation = Variation([prime], random=random, weights={"SamplePerfectTile": 1.0})
    assert {variation.mutated(prime).decisions[0] for _ in range(50)} == {(7, 1, 1), (1, 7, 1)}
    one = genome(1, 1, 1)
    assert variation.mutated(one) == one


def test_compute_locations_come_from_kin():
    kin = [genome(1, 1, 8, location=location) for location in (-2, 3)]
    variation = Variation(kin, random=Random(0), weights={"SampleComputeLocation": 1.0})
    assert {variation.mutated(genome(1, 1, 8)).decisions[2] for _ in range(50)} == {-2, 3}


def test_crossing_takes_each_decision_from_one_of_two():
    one, other = genome(8, 1, 1, unroll=0), genome(1, 1, 8, unroll=2)
    variation = Variation([other], random=Random(0))
    children = {variation.crossed(one).decisions[:2] for _ in range(50)}
    assert children == {((8, 1, 1), 0), ((8, 1, 1), 2), ((1, 1, 8), 0), ((1, 1, 8), 2)}


def test_without_mutators_nothing_changes():
    parent = genome(2, 2, 2)
    assert Variation([parent], random=Random(0), weights={}).mutated(parent) == parent


def test_drafts_find_what_the_model_learnt_and_nothing_known():
    random = Random(0)
    variation = Variation([genome(64, 1, 1)], random=random)
    known = {genome(64, 1, 1): quality(genome(64, 1, 1))}
    while len(known) < 40:
        drawn = variation.mutated(random.choice(list(known)))
        if drawn.decisions[0][-1] != 8:
            known[drawn] = quality(drawn)
    evolution = Evolution(population_size=64, genetic_num_iters=3, genetic_mutate_prob=0.85)

    def evolved(model):
        return evolution.run(model, list(known), but=known, random=Random(1), wanted=10)

    drafts = evolved(DraftModel(known))
    ranked = [genome for _, genome in drafts]
    assert not known.keys() & set(ranked)
    assert np.mean([quality(each) for each in ranked[:10]]) > 1.5 * np.mean(list(known.values()))
    assert evolved(DraftModel(dict(reversed(known.items())))) == drafts


class Flat:
    """A DraftModel that tells nothing apart."""

    def __init__(self):
        self.asked = []

    def predict(self, genomes):
        self.asked.append(len(genomes))
        return np.full(len(genomes), 0.5)


def test_a_population_grows_with_what_is_known_and_ends_where_nothing_gets_better():
    evolution = Evolution(population_size=64, genetic_num_iters=8, genetic_mutate_prob=0.85)
    parents = [genome(64, 1, 1), genome(1, 64, 1), genome(1, 1, 64)]
    model = Flat()
    found = evolution.run(model, parents, but=[], random=Random(0), wanted=3)
    assert len(model.asked) == 2  # the parents, and one generation that brought nothing
    assert len(found) <= len(parents) + 4 * len(parents)


def test_sketches_of_other_width_are_told_apart():
    narrow = Genome(Sketch(json.dumps(INSTRUCTIONS[:3])), ((4, 2, 1),))
    model = DraftModel({narrow: 1.0, genome(4, 2, 1): 0.1})
    better, worse = model.predict([narrow, genome(4, 2, 1)])
    assert better > worse
