"""Windows of few filters over images whose channels lie side by side: the image is laid out in planes."""

import pytest
from tvm import te

from tests.tuner.contractions import AVX2, assert_same_numbers, convolution, spaces
from tuner.module import canonical_module
from tuner.space import contraction_rule
from tuner.trace import canonical_text


def in_planes(mod, target):
    return [each for each in spaces(mod, target) if "CacheRead" in canonical_text(each.trace)]


@pytest.fixture(autouse=True)
def of_avx2(monkeypatch):
    """The same forms whatever this machine's vectors are."""
    monkeypatch.setattr(contraction_rule, "vector_unit", lambda *_: AVX2)


@pytest.mark.parametrize(
    ("size", "channels", "filters", "groups", "padding", "dilation", "relu"),
    [
        (15, 16, 3, 1, 1, 1, False),
        (15, 12, 4, 1, 1, 1, True),
        (17, 8, 2, 1, 0, 1, True),
        (15, 9, 3, 1, 2, 2, False),
        (15, 24, 6, 3, 1, 1, True),
        (27, 16, 4, 2, 1, 1, False),
        (19, 12, 12, 4, 1, 1, True),
        (18, 9, 9, 3, 0, 1, False),
        (20, 12, 4, 1, 1, 1, True),
    ],
    ids=[
        "three",
        "relu",
        "without padding",
        "dilated",
        "thin groups",
        "lines of sevens",
        "groups of three",
        "groups without padding",
        "odd lines",
    ],
)
def test_they_give_the_numbers_of_the_untuned_program(
    llvm, size, channels, filters, groups, padding, dilation, relu
):
    mod = convolution(
        size, channels, filters,
        stride=1, padding=padding, dilation=dilation, groups=groups, relu=relu,
    )  # fmt: skip
    found = in_planes(mod, llvm)
    assert found
    assert_same_numbers(mod, llvm, seed=5, found=found)


def test_what_follows_takes_its_results_out_of_their_planes(llvm):
    """A bias and a residual, whose channels lie side by side."""
    from tvm.s_tir.meta_schedule.testing import te_workload

    x, w, out = te_workload.conv2d_nhwc(1, 19, 21, 12, 12, 3, 1, 1, 1, 4)
    bias, residual = te.placeholder((1, 1, 1, 12), name="B"), te.placeholder((1, 19, 21, 12), name="R")
    out = te.compute(out.shape, lambda n, y, x, c: out[n, y, x, c] + bias[0, 0, 0, c] + residual[n, y, x, c])
    mod = canonical_module(te.create_prim_func([x, w, bias, residual, out]))
    found = in_planes(mod, llvm)
    assert found
    assert not any("CacheWrite" in canonical_text(each.trace) for each in found)
    assert_same_numbers(mod, llvm, seed=5, found=found)


def test_results_that_are_the_callers_keep_their_layout(llvm):
    from tvm import topi
    from tvm.s_tir.meta_schedule.testing import te_workload

    x, w, out = te_workload.conv2d_nhwc(1, 19, 21, 12, 12, 3, 1, 1, 1, 4)
    mod = canonical_module(te.create_prim_func([x, w, out, topi.nn.relu(out)]))
    found = in_planes(mod, llvm)
    assert found
    assert all("CacheWrite" in canonical_text(each.trace) for each in found)
    assert_same_numbers(mod, llvm, seed=5, found=found)


def test_pixels_a_stride_apart_fill_no_vectors(llvm):
    assert not in_planes(convolution(20, 12, 12, stride=2, padding=1, dilation=1, groups=4), llvm)


def test_a_single_filter_too(llvm):
    from tvm import topi

    x = te.placeholder((2, 12, 16, 10), name="X")
    w = te.placeholder((3, 3, 10, 1), name="W")
    out = topi.nn.relu(topi.nn.conv2d_nhwc(x, w, 1, 1, 1))
    mod = canonical_module(te.create_prim_func([x, w, out]))
    found = in_planes(mod, llvm)
    assert found
    assert_same_numbers(mod, llvm, seed=5, found=found)


@pytest.mark.parametrize(("filters", "groups", "nchw"), [(5, 1, False), (8, 1, False), (3, 1, True)])
def test_no_copy_where_filters_fill_vectors_or_pixels_lie_side_by_side(llvm, filters, groups, nchw):
    mod = convolution(15, 16, filters, stride=1, padding=1, dilation=1, groups=groups, nchw=nchw)
    assert not in_planes(mod, llvm)


def test_an_image_that_is_a_result_as_well_keeps_its_layout(llvm):
    from tvm import topi

    x, w = te.placeholder((1, 18, 18, 16), name="X"), te.placeholder((3, 3, 16, 3), name="W")
    image = topi.nn.relu(x)
    out = topi.nn.conv2d_nhwc(image, w, 1, 0, 1)
    assert not in_planes(canonical_module(te.create_prim_func([x, w, image, out])), llvm)
    assert in_planes(canonical_module(te.create_prim_func([x, w, out])), llvm)


def test_another_reader_of_the_image_gets_the_same_numbers(llvm):
    from tvm import topi

    x, w = te.placeholder((1, 16, 16, 16), name="X"), te.placeholder((3, 3, 16, 3), name="W")
    image = topi.nn.relu(x)
    filtered = topi.nn.conv2d_nhwc(image, w, 1, 1, 1)
    out = te.compute(filtered.shape, lambda *at: filtered[at] + image[at], name="Q")
    mod = canonical_module(te.create_prim_func([x, w, out]))
    found = in_planes(mod, llvm)
    assert found
    assert_same_numbers(mod, llvm, seed=5, found=found)
