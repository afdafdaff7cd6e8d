"""The entry points inside real disposable children, forked from a server that preloaded TVM once."""

import pytest

from sandbox.child import ChildDied
from sandbox.fork_server import ForkServer
from sandbox.limits import Limits
from tests.tuner.driving import SMALL
from tuner.module import save_module

LIMITS = Limits(cpu_secs=60, large_stack=True)


@pytest.fixture(scope="module")
def server():
    with ForkServer(preload=["tuner.preload"]) as running:
        yield running


def test_intake_answers_from_a_child(server, classroom_json):
    with server.spawn("tuner.intake:run", limits=LIMITS) as child:
        child.send({"op": "module", "module": classroom_json["mm"]})
        answer, _ = child.recv(30)
        assert [function["flops"] for function in answer["functions"]] == [2 * 128**3]
        child.send({"op": "target", "target": {"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 1}})
        assert child.recv(30)[0]["canonical"]["mcpu"] == "x86-64-v3"


def test_a_module_that_kills_tvms_loader_is_a_dead_child_and_the_next_one_lives(server, classroom_json):
    cycle = '{"root_index":1,"nodes":[{"type":"None"},{"type":"ffi.Array","data":[1]}]}'
    with server.spawn("tuner.intake:run", limits=LIMITS) as child:
        child.send({"op": "module", "module": cycle})
        with pytest.raises(ChildDied):
            child.recv(30)
    with server.spawn("tuner.intake:run", limits=LIMITS) as child:
        child.send({"op": "equal", "a": classroom_json["mm"], "b": classroom_json["mm"]})
        assert child.recv(30)[0] == {"equal": True}


def test_a_search_evolves_in_a_child(server, workloads, llvm):
    with server.spawn("tuner.search_child:run", limits=Limits(cpu_secs=120, idle_priority=True)) as child:
        child.send(
            {
                "op": "open",
                "module": save_module(workloads["mm_relu"]),
                "target": llvm,
                "space": None,
                "strategy": "evolutionary",
                "seed": 0,
                "options": {**SMALL, "result_lag": 1},
                "known": [],
            }
        )
        assert child.recv(60)[0]["ok"]
        child.send({"op": "suggest", "count": 4, "round": 0})
        first = child.recv(60)[0]["candidates"]
        results = [
            {**candidate, "round": 0, "latency_secs": 1e-3 * (i + 1)} for i, candidate in enumerate(first)
        ]
        child.send({"op": "update", "results": results})
        assert child.recv(60)[0] == {"ok": True}
        child.send({"op": "suggest", "count": 4, "round": 1})
        second = child.recv(60)[0]["candidates"]
        assert len(second) == 4
        assert all(candidate["predicted_score"] is not None for candidate in second)
