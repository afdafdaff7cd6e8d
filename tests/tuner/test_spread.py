"""Different programs first: numbers only, no schedule."""

import json

from tuner.search import spread as module
from tuner.search.genome import Genome, Sketch

SKETCH, OTHER = (Sketch(json.dumps([["Sample", [], [number], []]])) for number in range(2))


def program(*decisions, sketch=SKETCH):
    return Genome(sketch, decisions)


def spread(scored, *, reward):
    return [scored[place][1] for place in module.spread(scored, reward=reward)]


BEST, NEIGHBOUR, STRANGER = program((8, 2), 0, 7), program((8, 2), 1, 7), program((2, 8), 2, 7)


def test_a_stranger_comes_before_a_neighbour_of_the_best():
    scored = [(1.0, BEST), (0.9, NEIGHBOUR), (0.5, STRANGER)]
    # Of the two decisions that vary the neighbour shares one with the best, the stranger none.
    assert spread(scored, reward=0.9) == [BEST, STRANGER, NEIGHBOUR]
    assert spread(scored, reward=0.7) == [BEST, NEIGHBOUR, STRANGER]


def test_without_a_reward_scores_alone_count_and_ties_stay_as_they_were():
    scored = [(0.5, STRANGER), (0.5, NEIGHBOUR), (0.9, BEST)]
    assert spread(scored, reward=0.0) == [BEST, STRANGER, NEIGHBOUR]


def test_equal_decisions_of_another_sketch_are_others():
    same = program((8, 2), 0, 7, sketch=OTHER)
    far = program((4, 4), 1, 7, sketch=OTHER)
    scored = [(1.0, BEST), (0.9, NEIGHBOUR), (0.8, same), (0.2, far), (0.1, STRANGER)]
    assert spread(scored, reward=0.5) == [BEST, same, NEIGHBOUR, far, STRANGER]


def test_what_cannot_be_compared_counts_as_different():
    scored = [(1.0, BEST), (0.6, NEIGHBOUR), (0.4, None), (0.0, STRANGER)]
    assert spread(scored, reward=0.9)[1] is None
    assert spread([], reward=1.0) == []
