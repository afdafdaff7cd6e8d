"""Random programs come from every design space in turn, and more from those that weigh more."""

import json
from collections import Counter
from random import Random

import pytest

from tuner.search.drawing import Drawing, sketches_of
from tuner.search.genome import sketch_of


class Trace:
    def __init__(self, name):
        self._name = name

    def simplified(self, *, remove_postproc):
        assert remove_postproc
        return self

    def as_json(self):
        return [[["GetSBlock", [], [self._name, "main"], ["b0"]]], []]


class Space:
    """Stands for a design space's schedule: its trace is all that is read."""

    def __init__(self, name):
        self.trace = Trace(name)


class Replay:
    """Gives the sketch itself as the program; the first `refused` draws of each are none."""

    def __init__(self, refused=0):
        self.asked = Counter()
        self.states = []
        self._refused = refused

    def drawn(self, sketch, *, rand_state):
        self.asked[sketch] += 1
        self.states.append(rand_state)
        return sketch if self.asked[sketch] > self._refused else None


SPACES = [Space(f"b{number}") for number in range(5)]
SKETCHES = sketches_of(SPACES)


@pytest.mark.parametrize("count", [1, 4, 5, 13])
def test_each_space_gets_its_turn(count):
    drawing = Drawing(SKETCHES, Replay(), Random(3))
    drawn = Counter(drawing.draw(count))
    assert sum(drawn.values()) == count
    assert max(drawn.values(), default=0) - min(drawn[s] for s in SKETCHES) <= 1


def test_weights_are_shares():
    drawing = Drawing(SKETCHES[:3], Replay(), Random(0))
    weights = dict(zip(SKETCHES, (1.0, 0.0, 3.0), strict=False))
    drawn = Counter(drawing.draw(16, weights))
    assert [drawn[sketch] for sketch in SKETCHES[:3]] == [4, 0, 12]


def test_a_refused_program_is_drawn_again_from_another_state():
    replay = Replay(refused=2)
    assert len(Drawing(SKETCHES[:2], replay, Random(0)).draw(2)) == 2
    assert len(set(replay.states)) == 6


def test_a_space_that_gives_no_program_is_left():
    assert Drawing(SKETCHES[:1], Replay(refused=100), Random(0)).draw(2) == []


def test_a_space_is_known_by_its_instructions():
    text = json.dumps([*SPACES[0].trace.as_json()])
    assert SKETCHES[0] == sketch_of(text)
