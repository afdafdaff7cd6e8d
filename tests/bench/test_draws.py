"""Shapes that are drawn: the same for a seed, of the kind that is asked for; their table. No search."""

import argparse
import itertools

import pytest

from bench import draws, report_draws, vendors, workloads
from bench.drawing import Dice
from bench.kinds import KINDS
from bench.names import drawn_name, kind_and_sizes
from tests.bench.runs import space_row


def test_a_seed_draws_the_same_sizes_and_another_seed_others():
    first, again, other = (
        [kind.draw(dice) for kind in KINDS.values()] for dice in (Dice(1), Dice(1), Dice(2))
    )
    assert first == again
    assert first != other


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_drawn_is_built_from_its_name(kind):
    """Any process can: the name holds the sizes."""
    name = drawn_name(kind, KINDS[kind].draw(Dice(3)))
    found = workloads.workload(name)
    assert found.name == name
    *inputs, output = vendors.shapes(found.module)
    assert inputs
    assert all(extent > 0 for extent in itertools.chain(*inputs, output))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_a_function_of_a_library_to_compare_with(kind):
    assert kind in vendors.LIBRARIES["torch"]


def test_extents_are_within_their_bounds():
    dice = Dice(0)
    extents = [dice.extent(5, 120) for _ in range(1000)]
    assert min(extents) >= 5
    assert max(extents) <= 120
    assert len(set(extents)) > 50


def test_a_name_of_a_list_has_no_sizes():
    assert kind_and_sizes("GMM-512") == ("GMM-512", ())
    assert kind_and_sizes("matmul:33x500x63") == ("matmul", (33, 500, 63))


def test_a_kind_that_there_is_none_of_is_refused():
    with pytest.raises(KeyError, match="cubes"):
        workloads.workload("cubes:3x3")


def test_the_command_says_which_kinds_there_are(capsys):
    parser = argparse.ArgumentParser()
    draws.add_arguments(parser)
    assert parser.parse_args(["--kinds", "softmax,matmul"]).kinds == ("softmax", "matmul")
    with pytest.raises(SystemExit):
        parser.parse_args(["--kinds", "matmul,cubes"])
    assert "no such kind: cubes; there are conv2d-nhwc" in capsys.readouterr().err


def test_means_are_told_by_kind_and_what_is_behind_by_shape():
    rows = [
        space_row("matmul:2x2x2", stock=4e-6, tilefarm=2e-6, libraries={"torch": 8e-6}),
        space_row("matmul:3x3x3", stock=1e-6, tilefarm=2e-6, libraries={"torch": 4e-6}),
        space_row("softmax:4x4", stock=4e-6, tilefarm=2e-6, libraries={"torch": 1e-6}),
        space_row("softmax:8x8", stock=4e-6, tilefarm=4e-6, libraries={}, trials=256),
    ]
    told = report_draws.summary(rows)
    assert "### Drawn shapes on `znver4`" in told
    assert "| matmul | 64 | 1.00 (0.50, 2) | 2.83 (2.00, 2) |" in told
    assert "| softmax | 64 | 2.00 (2.00, 1) | 0.50 (0.50, 1) |" in told
    assert "| softmax | 256 | 1.00 (1.00, 1) | – |" in told
    _, behind = told.split("Behind")
    assert "| matmul:3x3x3 | 64 | 0 | 1.0 | 2.0 | 0.50 | 2.00 |" in behind
    assert "| softmax:4x4 | 64 | 0 | 4.0 | 2.0 | 2.00 | 0.50 |" in behind
    assert "matmul:2x2x2" not in behind
    assert "softmax:8x8" not in behind


def test_where_nothing_is_behind_there_is_no_such_table():
    assert "Behind" not in report_draws.summary([space_row("matmul:2x2x2", stock=4e-6, tilefarm=2e-6)])
