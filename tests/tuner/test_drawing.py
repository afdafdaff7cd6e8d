"""Random programs come from every design space in turn, more from those that weigh more, none twice."""

import dataclasses
import itertools
import json
import math
from collections import Counter
from random import Random

import pytest

from tuner.search.choices import Choices
from tuner.search.drawing import Drawing, spaces_of
from tuner.search.genome import Genome, genome_of, neighbours, sketch_of
from tuner.search.picks import Drawn
from tuner.search.programs import REFUSED


class Trace:
    def __init__(self, name, *, factors=(4, 4)):
        self._name, self._factors = name, list(factors)

    def simplified(self, *, remove_postproc):
        assert remove_postproc
        return self

    def as_json(self):
        tile = ["SamplePerfectTile", ["l1"], [len(self._factors), 64], ["v2", "v3"]]
        return [
            [["GetSBlock", [], [self._name, "main"], ["b0"]], ["GetLoops", ["b0"], [], ["l1"]], tile],
            [[2, self._factors]],
        ]


class Space:
    """Stands for a design space's schedule: its trace is all that is read."""

    def __init__(self, name, **tile):
        self.trace = Trace(name, **tile)


class Programs:
    """Every genome is a program; the first `refused` of each sketch are none, `known` are known."""

    def __init__(self, refused=0, known=()):
        self.asked = Counter()
        self._refused, self._known = refused, set(known)

    def new(self, genome):
        self.asked[genome.sketch] += 1
        if self.asked[genome.sketch] <= self._refused:
            return REFUSED
        if genome in self._known:
            return None
        return Drawn(None, sketch=genome.sketch, genome=genome, program_hash=repr(genome))


SPACES = spaces_of([Space(f"b{number}") for number in range(5)])
SKETCHES = [space.sketch for space in SPACES]


def drawn_from(drawing, count, weights=None):
    return Counter(drawn.sketch for drawn in drawing.draw(count, weights))


@pytest.mark.parametrize("count", [1, 4, 5, 13])
def test_each_space_gets_its_turn(count):
    drawn = drawn_from(Drawing(SPACES, Programs(), Random(3)), count)
    assert sum(drawn.values()) == count
    assert max(drawn.values(), default=0) - min(drawn[s] for s in SKETCHES) <= 1


def test_weights_are_shares():
    drawing = Drawing(SPACES[:3], Programs(), Random(0))
    drawn = drawn_from(drawing, 8, dict(zip(SKETCHES, (1.0, 0.0, 3.0), strict=False)))
    assert [drawn[sketch] for sketch in SKETCHES[:3]] == [3, 0, 5]  # each holds five programs


def test_a_refused_program_is_drawn_again():
    assert len(Drawing(SPACES[:2], Programs(refused=2), Random(0)).draw(2)) == 2


def test_a_space_that_gives_no_program_is_left():
    assert Drawing(SPACES[:1], Programs(refused=100), Random(0)).draw(2) == []


def test_an_empty_space_is_written_out_once_and_the_others_take_its_share():
    (empty, full) = spaces_of([Space("b0"), Space("b1", factors=(1 << 20, 1))])
    known = list(empty.choices.all())
    programs = Programs(known=known)
    drawing = Drawing([empty, full], programs, Random(0))
    assert drawn_from(drawing, 5) == {full.sketch: 5}
    assert programs.asked[empty.sketch] == len(known) == 5
    assert not drawing.is_dry


def test_a_space_that_brings_known_programs_alone_is_left_for_the_draw():
    """Each costs a replay; a dozen places of a batch need not ask a dozen times."""

    class Known(Programs):
        def drawn(self, sketch, *, rand_state):  # noqa: ARG002
            self.asked[sketch] += 1

    programs = Known()
    drawing = Drawing([dataclasses.replace(SPACES[0], choices=None)], programs, Random(0))
    for draws in (1, 2):
        assert drawing.draw(12) == []
        assert programs.asked[SKETCHES[0]] == drawing.useless == 32 * draws
    assert not drawing.is_dry


def test_no_program_is_drawn_twice_and_then_the_spaces_are_dry():
    drawing = Drawing(SPACES[:2], Programs(), Random(0))
    drawn = [*drawing.draw(3), *drawing.draw(100)]
    assert len({each.genome for each in drawn}) == len(drawn) == 10
    assert drawing.is_dry


def test_a_space_is_known_by_its_instructions():
    text = json.dumps([*Space("b0").trace.as_json()])
    assert SKETCHES[0] == sketch_of(text)


@pytest.mark.parametrize(("extent", "n"), [(1, 2), (7, 3), (12, 2), (96, 4), (1000, 2)])
def test_tiles_are_drawn_from_all_factorisations(extent, n):
    factors = (extent, *[1] * (n - 1))
    choices = Choices.of(genome_of(json.dumps(Trace("b0", factors=factors).as_json())))
    divisors = [d for d in range(1, extent + 1) if extent % d == 0]
    expected = {
        found
        for found in itertools.product(divisors, repeat=n)
        if math.prod(found) == extent and found[-1] <= 64
    }
    written = [genome.decisions[0] for genome in choices.all()]
    assert len(written) == len(set(written))
    assert set(written) == expected
    random = Random(n)
    assert {choices.drawn(random).decisions[0] for _ in range(20 * len(expected))} == expected


def test_an_innermost_factor_without_bound_may_be_any():
    instructions, decisions = Trace("b0", factors=(128, 1)).as_json()
    instructions[2][2] = [2, -1]  # as TVM says it
    genome = genome_of(json.dumps([instructions, decisions]))
    choices = Choices.of(genome)
    everything = {(1 << up, 1 << (7 - up)) for up in range(8)}
    assert {each.decisions[0] for each in choices.all()} == everything
    assert {choices.drawn(Random(seed)).decisions[0] for seed in range(100)} == everything
    assert [near.decisions[0] for near in neighbours(genome)] == [(64, 2)]


def test_what_depends_on_another_decision_is_left_to_tvm():
    tile = ["SamplePerfectTile", ["l1"], [2, 64], ["v2", "v3"]]
    of_its_split = ["SamplePerfectTile", ["l5"], [2, 64], ["v6", "v7"]]
    split = ["Split", ["l1", "v2", "v3"], [1, 0], ["l4", "l5"]]
    head = [["GetSBlock", [], ["b", "main"], ["b0"]], ["GetLoops", ["b0"], [], ["l1", "l9"]]]
    again = ["GetLoops", ["b0"], [], ["l5"]]
    for tail in ([tile, split, of_its_split], [tile, split, again, of_its_split]):
        places = [2, len(head + tail) - 1]
        assert Choices.of(genome_of(json.dumps([head + tail, [[at, [2, 2]] for at in places]]))) is None
    other = [tile, split, ["SamplePerfectTile", ["l9"], [2, 64], ["v6", "v7"]]]
    assert Choices.of(genome_of(json.dumps([head + other, [[2, [2, 2]], [4, [2, 3]]]]))) is not None
    chosen = ["SampleCategorical", [], [[2, 4], [0.5, 0.5]], ["v2"]]
    by_choice = [chosen, ["Split", ["l1", None, "v2"], [1, 0], ["l4", "l5"]], of_its_split]
    assert Choices.of(genome_of(json.dumps([head + by_choice, [[2, 0], [4, [1, 2]]]]))) is None
    location = ["SampleComputeLocation", ["b0"], [], ["l8"]]
    assert Choices.of(genome_of(json.dumps([[*head, location], [[2, -1]]]))) is None


def test_a_categorical_of_no_weight_is_not_drawn():
    kind = ["SampleCategorical", [], [[0, 16, 64], [0.5, 0.0, 0.5]], ["v1"]]
    choices = Choices.of(genome_of(json.dumps([[kind], [[0, 2]]])))
    assert [genome.decisions for genome in choices.all()] == [(0,), (2,)]
    assert {choices.drawn(Random(seed)).decisions for seed in range(20)} == {(0,), (2,)}
    assert isinstance(choices.drawn(Random(0)), Genome)
