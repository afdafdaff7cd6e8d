"""A schedule that compiles for ever costs a benchmark its limit, and is named."""

import json

import pytest

from bench import build_stages, evaluate
from bench.processes import BenchError
from tests.workers import author
from tuner.target import detect_local_target


def test_what_does_not_build_in_time_is_named_and_nothing_is_timed() -> None:
    mm = author.matmul(128)
    traces = {
        "fast": json.loads(author.trace(mm, author.tiled)),
        "endless": json.loads(author.trace(mm, author.endless_unroll)),
        "wrong": [[["NoSuch", [], [], []]], []],
    }
    target = detect_local_target(num_cores=1)
    with pytest.raises(BenchError) as raised:
        evaluate.timed(author.save(mm), traces, target, evaluate.CURVE, build_limit_secs=1.0)
    assert str(raised.value).startswith("no time of endless: it did not build within 1 s; wrong: ")
    assert "NoSuch" in str(raised.value)


@pytest.mark.slow
def test_the_stages_of_a_build_are_those_of_what_builds_in_time() -> None:
    mm = author.matmul(128)
    tiled, endless = (
        json.loads(author.trace(mm, schedule)) for schedule in (author.tiled, author.endless_unroll)
    )
    target = detect_local_target(num_cores=1)
    stages = build_stages.mean_secs(author.save(mm), [tiled, tiled, endless], target, limit_secs=1.0)
    assert 0 < stages["machine code"] < 1.0
