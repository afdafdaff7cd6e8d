"""Small windows (depthwise convolutions, poolings) in our space: right numbers, traces that are allowed."""

import json

import ml_dtypes  # noqa: F401 - teaches numpy bfloat16
import numpy as np
import pytest

from checks.space import named_space
from checks.trace import check_trace
from tests.tuner.contractions import inputs, matmul, outputs
from tests.tuner.driving import open_search
from tuner.module import canonical_module
from tuner.space.window_rule import passed_over
from tuner.target import make_target
from tuner.trace import apply_trace, canonical_text
from tuner.tvm_light import load_tvm

tvm = load_tvm()
te = tvm.te

OURS, _ = named_space("tilefarm")
_SERIAL, _VECTORIZED, _UNROLLED = 0, 2, 3
_WIDE = {"kind": "llvm", "mcpu": "x86-64-v4", "num-cores": 2}


def depthwise(size, channels, *, stride, padding):
    from tvm.s_tir.meta_schedule.testing import te_workload

    arguments = te_workload.depthwise_conv2d_nhwc(1, size, size + 2, channels, 3, stride, padding)
    return canonical_module(te.create_prim_func(list(arguments)))


def dilated(size, channels):
    """Its filter has a unit axis behind the channels, as topi's and Relax's have."""
    from tvm import topi

    x = te.placeholder((1, size, size, channels), name="X")
    w = te.placeholder((3, 3, channels, 1), name="W")
    return canonical_module(te.create_prim_func([x, w, topi.nn.depthwise_conv2d_nhwc(x, w, 1, 2, 2)]))


def line(channels, width):
    """Of one dimension: only the channels are left for the cores."""
    x, w = te.placeholder((1, channels, width + 2), name="X"), te.placeholder((channels, 3), name="W")
    k = te.reduce_axis((0, 3), name="k")
    out = te.compute((1, channels, width), lambda n, c, i: te.sum(x[n, c, i + k] * w[c, k], axis=k))
    return canonical_module(te.create_prim_func([x, w, out]))


def depthwise_first(height, width, channels, *, padding, size=3, stride=1):
    """Channels first: vectors lie along a line of the image, and its taps shift them."""
    from tvm import topi

    x = te.placeholder((1, channels, height, width), name="X")
    w = te.placeholder((channels, 1, size, size), name="W")
    out = topi.nn.depthwise_conv2d_nchw(x, w, stride, padding, 1)
    return canonical_module(te.create_prim_func([x, w, topi.nn.relu(out)]))


def pooling(kind, size, channels, *, stride, padding, layout="NHWC", window=(2, 3)):
    from tvm import topi

    shape = (2, size, size + 1, channels) if layout == "NHWC" else (2, channels, size, size + 1)
    x = te.placeholder(shape, name="X")
    pads = (padding, padding, padding, padding)
    pooled = topi.nn.pool2d(x, window, (stride, stride), (1, 1), pads, kind, layout=layout)
    return canonical_module(te.create_prim_func([x, topi.nn.relu(pooled)]))


def spaces(mod, target):
    schedule = tvm.s_tir.Schedule(mod, debug_mask="none")
    root = schedule.get_sblock("root")
    (block,) = [b for b in schedule.get_child_blocks(root) if schedule.get(b).init is not None]
    return passed_over(schedule, block, make_target(target))


@pytest.mark.parametrize(
    ("mod", "n_forms"),
    [
        (lambda: depthwise(7, 16, stride=2, padding=1), 4),
        (lambda: depthwise(14, 40, stride=1, padding=1), 4),
        (lambda: depthwise(6, 28, stride=1, padding=1), 4),
        (lambda: depthwise_first(8, 16, 3, padding=1), 2),
        (lambda: pooling("max", 9, 32, stride=2, padding=1), 4),
        (lambda: pooling("avg", 6, 8, stride=1, padding=0), 2),
        (lambda: pooling("avg", 9, 5, stride=1, padding=1, layout="NCHW"), 4),
        (lambda: pooling("avg", 9, 5, stride=2, padding=1, layout="NCHW"), 4),
        (lambda: pooling("avg", 9, 5, stride=1, padding=0, layout="NCHW"), 3),
        (lambda: depthwise_first(16, 32, 3, padding=1, stride=2), 3),
        (lambda: depthwise_first(13, 29, 3, padding=2, size=5, stride=2), 3),
        (lambda: depthwise_first(9, 43, 3, padding=1, stride=3), 1),
        (lambda: depthwise_first(7, 14, 5, padding=1), 2),
        (lambda: depthwise_first(7, 7, 5, padding=3, size=7), 1),
        (lambda: depthwise_first(14, 28, 2, padding=2, size=5), 2),
        (lambda: depthwise_first(8, 13, 2, padding=1), 2),
        (lambda: depthwise_first(8, 17, 2, padding=1), 2),
        (lambda: dilated(9, 16), 4),
        (lambda: line(12, 32), 2),
        (lambda: line(13, 21), 1),
        (lambda: depthwise(13, 37, stride=1, padding=1), 4),
        (lambda: depthwise(22, 19, stride=2, padding=1), 4),
        (lambda: depthwise(11, 9, stride=1, padding=0), 4),
        (lambda: pooling("max", 11, 21, stride=1, padding=1), 4),
        (lambda: pooling("avg", 11, 21, stride=1, padding=0), 2),
        (lambda: depthwise_first(11, 29, 3, padding=1), 2),
        (lambda: depthwise_first(13, 21, 2, padding=2, size=5), 2),
    ],
    ids=[
        *("strided", "odd channels", "channels of an odd vector", "channels first", "max", "average"),
        *("average of a line", "strided average of a line", "average of a line without padding"),
        *("strided line", "strided odd line", "no tap is shared", "odd line", "small image", "wide line"),
        *("prime line", "long prime line", "dilated", "one dimension", "one odd dimension"),
        *("prime channels and neighbours", "the same strided", "one channel is left", "prime max"),
        *("prime average", "prime image, channels first", "the same by many taps"),
    ],
)
def test_each_form_gives_the_numbers_of_the_untuned_program(llvm, mod, n_forms):
    mod = mod()
    found = spaces(mod, llvm)
    assert len(found) == n_forms
    arrays = inputs(mod)
    expected = outputs(mod, llvm, arrays)
    for seed, schedule in enumerate(found):
        instructions, _ = json.loads(canonical_text(schedule.trace))
        drawn = apply_trace([instructions, []], mod, rand_state=1 + seed)
        check_trace(json.loads(canonical_text(drawn.trace)))
        np.testing.assert_allclose(outputs(drawn.mod, llvm, arrays), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("mod", "is_offered"),
    [
        (lambda: depthwise(12, 32, stride=1, padding=1), True),
        (lambda: pooling("max", 7, 16, stride=1, padding=1), True),
        (lambda: depthwise(24, 32, stride=2, padding=1), False),
        (lambda: dilated(12, 32), False),
        (lambda: depthwise(13, 32, stride=1, padding=1), False),
        (lambda: depthwise(12, 24, stride=1, padding=1), False),
    ],
    ids=["depthwise", "max", "reads too much", "reads apart", "prime lines", "odd channels"],
)
def test_several_lines_hold_what_they_read_in_32_registers(llvm, mod, is_offered):
    mod = mod()
    wide = [schedule for schedule in spaces(mod, _WIDE) if _copies_into_registers(schedule)]
    assert len(wide) == is_offered
    arrays = inputs(mod)
    expected = outputs(mod, llvm, arrays)
    for schedule in wide:
        instructions, _ = json.loads(canonical_text(schedule.trace))
        drawn = apply_trace([instructions, []], mod, rand_state=1)
        check_trace(json.loads(canonical_text(drawn.trace)))
        np.testing.assert_allclose(outputs(drawn.mod, llvm, arrays), expected, rtol=1e-4, atol=1e-5)


def _copies_into_registers(schedule):
    """What moves the image into its padding is unrolled."""
    blocks = schedule.get_child_blocks(schedule.get_sblock("root"))
    copies = [block for block in blocks if schedule.get(block).name_hint.lower().startswith("pad")]
    loops = [schedule.get(loop) for copy in copies for loop in schedule.get_loops(copy)]
    return any(int(loop.kind) == _UNROLLED for loop in loops)


def _loops(schedule, *, sums):
    """(extent, kind) of those around the block that sums, or around what follows it."""
    blocks = schedule.get_child_blocks(schedule.get_sblock("root"))
    (block,) = [each for each in blocks if schedule.get(each).name_hint.endswith("_update")]
    if not sums:
        (block,) = schedule.get_consumers(block)
    found = [schedule.get(loop) for loop in schedule.get_loops(block)]
    return [(int(loop.extent), int(loop.kind)) for loop in found]


@pytest.mark.parametrize(
    ("mod", "n_apart"),
    [
        (lambda: pooling("max", 28, 32, stride=1, padding=2, window=(4, 5)), 4),
        (lambda: pooling("max", 32, 6, stride=1, padding=2, layout="NCHW", window=(4, 5)), 5),
        (lambda: pooling("max", 28, 43, stride=1, padding=2, window=(4, 5)), 4),
    ],
    ids=["channels last", "channels first", "prime channels"],
)
def test_of_many_taps_those_that_no_neighbours_share_stay_loops_around_the_others(mod, n_apart):
    mod = mod()
    (first, *_) = spaces(mod, _WIDE)
    *_, apart, shared, neighbours, lanes = _loops(first, sums=True)
    assert (apart, shared) == ((n_apart, _SERIAL), (20 // n_apart, _UNROLLED))
    assert neighbours[1] == _UNROLLED
    assert neighbours[0] > 8
    assert lanes == (16, _VECTORIZED)


@pytest.mark.parametrize(
    ("mod", "takes"),
    [
        (lambda: depthwise_first(16, 32, 3, padding=1), True),
        (lambda: depthwise_first(16, 29, 3, padding=1), True),
        (lambda: pooling("max", 12, 32, stride=1, padding=1), True),
        (lambda: pooling("avg", 12, 32, stride=1, padding=1), True),
        (lambda: pooling("avg", 31, 8, stride=1, padding=1, layout="NCHW"), False),
    ],
    ids=["depthwise", "odd lines", "max", "average", "an average's count differs along the line"],
)
def test_what_follows_takes_each_tile_from_registers(mod, takes):
    tiled = [each for each in spaces(mod(), _WIDE) if _loops(each, sums=True)[-1][1] == _VECTORIZED]
    assert tiled
    for schedule in tiled:
        *_, neighbours, whole, lanes = _loops(schedule, sums=False)
        is_taken = neighbours[1] == whole[1] == _UNROLLED and lanes == (16, _VECTORIZED)
        assert is_taken == takes
        assert neighbours[0] <= 8 or not takes


def test_a_window_of_bfloat16_begins_in_a_way_that_tvm_can_build(llvm):
    """A vector of one such number cannot be stored: its sums or maxima begin one by one."""
    from tvm import topi

    x = te.placeholder((8, 9, 16), "bfloat16", name="X")
    k = te.reduce_axis((0, 3), name="k")
    pooled = te.compute((6, 9, 16), lambda h, w, c: te.max(x[h + k, w, c], axis=k), name="P")
    mod = canonical_module(te.create_prim_func([x, topi.nn.relu(pooled)]))
    found = spaces(mod, llvm)
    assert found
    generator = np.random.default_rng(0)
    arrays = [generator.standard_normal(shape).astype("bfloat16") for shape in ((8, 9, 16), (6, 9, 16))]
    for schedule in found:
        np.testing.assert_array_equal(outputs(schedule.mod, llvm, arrays), outputs(mod, llvm, arrays))


def test_a_reduction_of_two_results_is_no_window(llvm):
    """Of an arg-max; its block stores a place and a value."""
    from tvm import topi

    x = te.placeholder((8, 10, 16), name="X")
    mod = canonical_module(te.create_prim_func([x, topi.argmax(x, axis=1)]))
    assert spaces(mod, llvm) == []
    assert open_search("random", mod, llvm, space=OURS).suggest(4, round_=0).candidates


def test_a_contraction_and_a_long_sum_are_no_windows(llvm):
    x = te.placeholder((64, 64), name="X")
    k = te.reduce_axis((0, 64), name="k")
    rows = canonical_module(te.create_prim_func([x, te.compute((64,), lambda i: te.sum(x[k, i], axis=k))]))
    for mod in (matmul(16, 16, 16), rows):
        assert spaces(mod, llvm) == []
