"""A search played against recorded programs: exact where one was drawn, its neighbours' time where not."""

import argparse
import json

import pytest

from bench import ablation, recorded_programs
from bench.recorded_programs import Recorded, write
from tuner.search.drawing import spaces_of
from tuner.search.genome import Genome
from tuner.search.options import SearchOptions

NAME = "GMM-128"


@pytest.fixture(scope="module")
def spaces(tmp_path_factory):
    """Two tiles of the last space are known, 1 ms and 4 ms, and one program of another."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recorded_programs, "RECORDED", tmp_path_factory.mktemp("recorded"))
        yield _recorded()


def _recorded():
    setup = ablation.setup_of(NAME, seed=0, options=SearchOptions())
    found = spaces_of(setup.design_spaces)
    last = len(found) - 1
    first, second = list(found[last].choices.all())[:2]
    other = next(found[0].choices.all())
    programs = [[last, first.decisions, 1e-3], [last, second.decisions, 4e-3], [0, other.decisions, 9e-3]]
    write(NAME, found, programs)
    return found


def test_a_drawn_program_takes_what_it_took_and_another_what_its_neighbours_did(spaces):
    recorded = Recorded.read(NAME, spaces)
    known, _, unknown = list(spaces[-1].choices.all())[:3]
    assert recorded.best_secs == 1e-3
    assert recorded.secs(json.dumps(known.trace())) == 1e-3
    assert 1e-3 < recorded.secs(json.dumps(unknown.trace())) < 1.04 * 4e-3
    strange = Genome(spaces[1].sketch, next(spaces[1].choices.all()).decisions)
    assert recorded.secs(json.dumps(strange.trace())) == 9e-3  # nothing is known of its space


def test_other_design_spaces_than_the_recorded_ones_are_refused(spaces):
    with pytest.raises(ValueError, match="have changed"):
        Recorded.read(NAME, spaces[1:])


@pytest.mark.usefixtures("spaces")
def test_every_variant_plays(capsys):
    arguments = argparse.Namespace(
        workloads=NAME, variants="random search", trials=4, seeds=1, record=None, docs=False
    )
    assert ablation.main(arguments) == 0
    assert "| random search | " in capsys.readouterr().out
