"""Results of turned contractions go to their lines in squares of vectors, whatever was sampled."""

import json

import pytest

from tests.tuner.contractions import assert_same_numbers, spaces, te, tvm
from tuner.module import canonical_module
from tuner.trace import apply_trace, canonical_text


def _strided(filters, *, size=32, relu=True, kernel=3):
    """Channels first, lines of sixteen results: their windows slide by twos, and filters are the vectors."""
    from tvm import topi

    x = te.placeholder((1, 3, size, size), name="X")
    w = te.placeholder((filters, 3, kernel, kernel), name="W")
    out = topi.nn.conv2d_nchw(x, w, 2, kernel // 2, 1)
    return canonical_module(te.create_prim_func([x, w, topi.nn.relu(out) if relu else out]))


def _lasts(schedule):
    """Kinds and extents of the two innermost loops of each block that follows the sum.

    But of those that take a register tile to its place, whose loops are all unrolled.
    """
    children = schedule.get_child_blocks(schedule.get_sblock("root"))
    names = [schedule.get(each).name_hint for each in children]
    (at,) = [place for place, name in enumerate(names) if name.endswith("_update")]
    for each in children[at + 1 :]:
        outside, row, lane = (schedule.get(loop) for loop in schedule.get_loops(each)[-3:])
        if outside.kind == tvm.tirx.ForKind.UNROLLED:
            continue
        yield (row.kind, int(row.extent)), (lane.kind, int(lane.extent))


@pytest.mark.parametrize(("mcpu", "lanes"), [("znver3", 8), ("znver4", 16), ("cascadelake", 16)])
def test_of_whole_vectors_of_filters_and_of_a_line_squares_are_stored(mcpu, lanes):
    mod = _strided(64, size=112)
    unrolled, vectorized = tvm.tirx.ForKind.UNROLLED, tvm.tirx.ForKind.VECTORIZED
    found = []
    for each in spaces(mod, {"kind": "llvm", "mcpu": mcpu, "num-cores": 2}):
        instructions, _ = json.loads(canonical_text(each.trace))
        for seed in (1, 2, 3):
            found += list(_lasts(apply_trace([instructions, []], mod, rand_state=seed)))
    squares = [(row, lane) for row, lane in found if row[0] == unrolled and lane == (vectorized, lanes)]
    assert squares
    assert all(lanes % row[1] == 0 and row[1] >= 4 for row, _ in squares)


@pytest.mark.parametrize(
    ("filters", "options"),
    [(64, {}), (32, {"relu": False}), (20, {}), (16, {"size": 24}), (24, {"kernel": 5}), (32, {"size": 30})],
    ids=["squares", "no epilogue", "filters that fill no vectors", "short lines", "5x5", "odd lines"],
)
def test_they_give_the_numbers_of_the_untuned_program(llvm, filters, options):
    mod = _strided(filters, **options)
    found = spaces(mod, llvm)
    for seed in range(2):
        assert_same_numbers(mod, llvm, seed=seed, found=found, at_most=6)


@pytest.mark.parametrize("mcpu", ["znver3", "znver4"])
@pytest.mark.parametrize("size", [62, 106])
def test_lines_of_odd_tiles_are_not_split_by_squares(mcpu, size):
    """31 and 53 results: a condition would stand around each element."""
    mod = _strided(64, size=size)
    for each in spaces(mod, {"kind": "llvm", "mcpu": mcpu, "num-cores": 2}):
        after = list(_lasts(each))
        assert not [row for row, _ in after if row[0] == tvm.tirx.ForKind.UNROLLED]
