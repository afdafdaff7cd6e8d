"""What is a contraction, by its structure."""

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


def test_groups_are_found_in_the_indices():
    mod = convolution(8, 16, 32, stride=1, padding=1, dilation=1, groups=2)
    schedule = tvm.s_tir.Schedule(mod, debug_mask="none")
    assert grouped_axis(schedule.get(schedule.get_sblock("conv2d_nhwc"))) == (3, 16)


def test_what_is_no_contraction_is_left_alone(llvm):
    x = te.placeholder((64, 64), name="X")
    k = te.reduce_axis((0, 64), name="k")
    mod = canonical_module(te.create_prim_func([x, te.compute((64,), lambda i: te.sum(x[i, k], axis=k))]))
    assert spaces(mod, llvm) == []
