"""Contractions of few rows whose depth the cores share: when they are offered, and their numbers."""

import json
import math

import pytest

from checks.trace import check_trace
from tests.tuner.contractions import assert_same_numbers, computed, matmul, spaces
from tuner.space.contraction import Contraction
from tuner.space.registers import PEELED
from tuner.space.split_streams import split_streams_of, write_split_stream
from tuner.trace import canonical_text
from tuner.tvm_light import load_tvm

tvm = load_tvm()


def _split(mod, *, cores, name="C"):
    schedule = tvm.s_tir.Schedule(mod, debug_mask="none")
    contraction = Contraction.of(schedule.get(schedule.get_sblock(name)))
    return schedule, contraction, split_streams_of(contraction, cores=cores)


@pytest.mark.parametrize(
    ("rows", "columns", "depth", "parts"),
    [
        (1, 256, 512, 8),
        (4, 1024, 512, 8),
        (8, 264, 400, 10),
        (3, 259, 521, 6),  # prime: the last part is shorter, and ends within eight steps
        (1, 9000, 256, 8),  # two lines; what adds the parts up is shared as well, by pieces of 1000
        (1, 256, 144, 4),  # of five to eight parts each would have less than 32 steps
    ],
    ids=["one row", "four", "eight", "prime", "two lines", "short"],
)
@pytest.mark.parametrize("epilogue", [False, True])
def test_each_core_sums_its_parts_of_the_depth(llvm, rows, columns, depth, parts, epilogue):
    mod = matmul(rows, columns, depth, epilogue=epilogue)
    schedule, contraction, (stream,) = _split(mod, cores=2)
    assert -(-depth // stream.part) == parts
    write_split_stream(schedule, schedule.get_sblock("C"), contraction, stream)
    check_trace(json.loads(canonical_text(schedule.trace)))
    assert_same_numbers(mod, llvm, seed=rows, found=[schedule])
    script = str(schedule.mod.script())
    assert f"sblock_alloc_buffer(({parts}, {rows}, {columns}))" in script
    assert script.count(PEELED) == (depth % stream.part > 0)
    assert script.count("T.parallel") == 1 + (columns * parts >= 1 << 15)
    assert (columns < 9000) or "T.parallel(9)" in script


@pytest.mark.parametrize("depth", range(190, 260, 7))
@pytest.mark.parametrize("cores", [2, 3, 5])
def test_no_core_has_much_more_than_its_share(depth, cores):
    _, _, streams = _split(matmul(1, 256, depth), cores=cores)
    for stream in streams:
        busiest = math.ceil(math.ceil(depth / stream.part) / cores) * stream.part
        assert busiest <= depth / cores + stream.steps * 2


@pytest.mark.parametrize(
    ("rows", "columns", "depth", "cores"),
    [
        (1, 256, 512, 1),
        (1, 128, 512, 2),
        (1, 257, 64, 2),
        (9, 512, 512, 2),
        (1, 256, 1 << 14, 40),
        (1, 8209, 512, 2),
    ],
    ids=["one core", "short lines", "shallow", "tiles do better", "too many cores", "a long prime line"],
)
def test_they_are_offered_where_the_depth_is_most_of_the_work(rows, columns, depth, cores):
    _, _, streams = _split(matmul(rows, columns, depth), cores=cores)
    assert streams == ()


def test_a_batch_keeps_the_cores_busy():
    batched = computed(
        lambda topi, x, y: topi.nn.batch_matmul(x, y, transpose_b=False), (3, 1, 512), (3, 512, 256)
    )
    _, _, streams = _split(batched, cores=2, name="T_batch_matmul_NN")
    assert streams == ()


def test_the_rule_offers_them(llvm):
    """Stock's own `rfactor` samples its parts."""
    found = [canonical_text(each.trace) for each in spaces(matmul(2, 300, 320, epilogue=True), llvm)]
    assert [text for text in found if "RFactor" in text and "SamplePerfectTile" not in text]
