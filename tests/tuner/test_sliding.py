"""Convolutions of as many filters as one vector holds: a tile's rows share the scalars their taps go over."""

import pytest

from tests.tuner.contractions import assert_same_numbers, convolution, spaces, tvm
from tuner.space import contraction_rule
from tuner.space.contraction import Contraction
from tuner.space.plans import sliding_plans
from tuner.space.vectors import VectorUnit
from tuner.trace import canonical_text

_YMM = VectorUnit(lanes=8, registers=32)


@pytest.mark.parametrize(
    ("size", "filters", "groups", "stride", "dilation", "relu"),
    [
        (13, 8, 1, 1, 1, True),
        (15, 16, 2, 1, 1, False),
        (28, 8, 1, 1, 1, True),
        (27, 8, 1, 2, 1, False),
        (21, 12, 2, 1, 2, True),
    ],
    ids=["whole lines", "groups", "lines with ends", "strided", "groups of six, dilated"],
)
def test_rows_that_share_scalars_give_the_same_numbers(
    llvm, monkeypatch, size, filters, groups, stride, dilation, relu
):
    mod = convolution(
        size,
        12 * groups,
        filters,
        stride=stride,
        padding=dilation,
        dilation=dilation,
        groups=groups,
        relu=relu,
    )
    every = spaces(mod, llvm)
    monkeypatch.setattr(contraction_rule, "_sliding", lambda contraction, *_: (contraction, []))
    others = {canonical_text(each.trace) for each in spaces(mod, llvm)}
    found = [each for each in every if canonical_text(each.trace) not in others]
    assert found
    assert_same_numbers(mod, llvm, seed=7, found=found, at_most=len(found))


def _plans(size, channels, filters, *, unit=_YMM, **how):
    how = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1, "relu": False} | how
    schedule = tvm.s_tir.Schedule(convolution(size, channels, filters, **how))
    return sliding_plans(Contraction.of(schedule.get(schedule.get_sblock("conv2d_nhwc"))), unit)


def test_the_taps_of_a_line_are_innermost():
    (fits, *_) = _plans(29, 16, 8)
    assert fits.depth_loops == (3, 3, 16)
    assert fits.taps == 1
    assert (fits.tile.rows, fits.tile.columns) == (14, 8)


@pytest.mark.parametrize(
    ("filters", "how"),
    [(16, {}), (8, {"stride": 3}), (8, {"dilation": 3})],
    ids=["two vectors", "taps that lie apart", "taps far apart"],
)
def test_others_share_nothing(filters, how):
    assert _plans(29, 16, filters, **how) == ()


def test_where_wide_vectors_take_two_steps_loads_are_no_limit():
    assert _plans(29, 16, 16, unit=VectorUnit(lanes=16, registers=32, fmas_per_cycle=1)) == ()
