"""What is a contraction, by its structure."""

import pytest

from tests.tuner.contractions import convolution, spaces
from tuner.module import canonical_module
from tuner.space.contraction import Contraction, grouped_axis
from tuner.tvm_light import load_tvm

tvm = load_tvm()
te = tvm.te


def test_a_convolution_is_a_contraction_of_pixels_filters_and_taps():
    mod = convolution(8, 16, 32, stride=1, padding=1, dilation=1, groups=1)
    schedule = tvm.s_tir.Schedule(mod, debug_mask="none")
    block = schedule.get(schedule.get_sblock("conv2d_nhwc"))
    contraction = Contraction.of(block)
    assert contraction is not None
    assert contraction.extents == (8 * 9, 32, 3 * 3 * 16)
    assert not contraction.batch


@pytest.mark.parametrize(
    ("image_first", "filters_first", "extents"),
    [
        (False, False, [3, 5, 8]),  # channels behind the window in both
        (True, False, [3, 5, 8]),  # the filters are read where they lie
        (True, True, [8, 3, 5]),
    ],
)
def test_the_depth_goes_on_as_the_operand_does_that_is_read_in_place(image_first, filters_first, extents):
    """Whatever the order of the sum, which is (window's columns, channels, window's rows) here."""
    x = te.placeholder((8, 12, 12) if image_first else (12, 12, 8), name="X")
    w = te.placeholder((8, 3, 5, 32) if filters_first else (3, 5, 8, 32), name="W")
    i, p, q = (te.reduce_axis((0, extent), name=name) for extent, name in ((8, "i"), (3, "p"), (5, "q")))

    def out(y, z, o):
        pixel = x[i, y + p, z + q] if image_first else x[y + p, z + q, i]
        return te.sum(pixel * (w[i, p, q, o] if filters_first else w[p, q, i, o]), axis=[q, i, p])

    mod = canonical_module(te.create_prim_func([x, w, te.compute((10, 8, 32), out, name="C")]))
    schedule = tvm.s_tir.Schedule(mod, debug_mask="none")
    contraction = Contraction.of(schedule.get(schedule.get_sblock("C")))
    assert [axis.extent for axis in contraction.depth] == extents


def test_groups_are_found_in_the_indices():
    mod = convolution(8, 16, 32, stride=1, padding=1, dilation=1, groups=2)
    schedule = tvm.s_tir.Schedule(mod, debug_mask="none")
    assert grouped_axis(schedule.get(schedule.get_sblock("conv2d_nhwc"))) == (3, 16)


def test_what_is_no_contraction_is_left_alone(llvm):
    x = te.placeholder((64, 64), name="X")
    k = te.reduce_axis((0, 64), name="k")
    mod = canonical_module(te.create_prim_func([x, te.compute((64,), lambda i: te.sum(x[i, k], axis=k))]))
    assert spaces(mod, llvm) == []
