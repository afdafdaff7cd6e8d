"""A search child is a function of its rows, and outlives its own errors."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tuner.driving import SMALL, latency_of
from tests.tuner.fakes import FakeChannel
from tuner.module import save_module
from tuner.search_child import SearchChild, run

ROOT = Path(__file__).parents[2]

#: Answers the requests of its input in a process of its own.
_IN_ANOTHER_PROCESS = """
import json, sys
from tuner.search_child import SearchChild
child = SearchChild()
print(json.dumps([child.answer(request) for request in json.load(sys.stdin)]))
"""


def elsewhere(requests):
    done = subprocess.run(
        [sys.executable, "-c", _IN_ANOTHER_PROCESS],
        input=json.dumps(requests),
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    return json.loads(done.stdout)


def open_request(mod, target, *, strategy="evolutionary", **more):
    return {
        "op": "open",
        "module": save_module(mod),
        "target": target,
        "space": None,
        "strategy": strategy,
        "seed": 7,
        "options": {**SMALL, "number": 3},
        "known": [],
        **more,
    }


def results_of(answer, *, round_):
    keep = ("trace_hash", "program_hash", "features", "trace")
    return [
        {**{name: c[name] for name in keep}, "round": round_, "latency_secs": latency_of(c["trace"])}
        for c in answer["candidates"]
    ]


def suggest(round_, count=8):
    return {"op": "suggest", "count": count, "round": round_}


@pytest.mark.parametrize("strategy", ["evolutionary", "random"])
def test_a_search_rebuilt_from_rows_in_another_process_suggests_the_same_bits(workloads, llvm, strategy):
    child = SearchChild()
    opened = open_request(workloads["mm_relu"], llvm, strategy=strategy)
    assert child.answer(opened)["ok"]
    told, out = [], []
    for round_ in range(3):
        answer = child.answer(suggest(round_))
        results = results_of(answer, round_=round_)
        if round_ < 2:
            told += results
            assert child.answer({"op": "update", "results": results}) == {"ok": True}
        else:
            out = [result["program_hash"] for result in results]
    expected = child.answer(suggest(3))["candidates"]
    _, rebuilt = elsewhere([{**opened, "known": told[::-1], "pending": out}, suggest(3)])
    assert len(expected) == 8
    assert rebuilt["candidates"] == expected


def test_it_answers_over_the_channel_until_its_end(workloads, llvm, mm_space):
    channel = FakeChannel(open_request(workloads["mm"], llvm, space=mm_space), suggest(0), suggest(1))
    run(channel)
    opened, first, second = channel.answers
    assert opened["design_spaces"] == 1
    assert len(first["candidates"]) == 5
    assert first["stage_secs"]["search"] > 0
    assert (second["candidates"], second["exhausted"]) == ([], True)


def test_an_error_is_typed_and_the_child_lives_on(workloads, llvm, mm_space):
    child = SearchChild()
    asked = [
        ({"op": "suggest", "count": 1, "round": 0}, "bad_request"),
        ({"op": "nonsense"}, "bad_request"),
        ({"op": "open"}, "bad_request"),
        (
            open_request(workloads["mm"], {"kind": "llvm", "mcpu": "no-such-cpu", "num-cores": 2}),
            "unknown_mcpu",
        ),
        (open_request(workloads["mm"], llvm, strategy="guess"), "bad_request"),
        (open_request(workloads["mm"], llvm, options={"num_threads": 0}), "bad_request"),
        (open_request(workloads["conv2d"], llvm, space=mm_space), "bad_space"),
        ({**open_request(workloads["mm"], llvm), "module": "{}"}, "not_an_ir_module"),
        (open_request(workloads["mm"], llvm, known=[{"trace_hash": "x"}]), "bad_request"),
    ]
    codes = [child.answer(request)["error"]["code"] for request, _ in asked]
    assert codes == [code for _, code in asked]
    assert child.answer(open_request(workloads["mm"], llvm, space=mm_space))["ok"]
    assert len(child.answer(suggest(0))["candidates"]) == 5
