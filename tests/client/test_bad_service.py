"""Stock compile_relax while the service fails: the model compiles, in bounded time, to the right numbers.

The service is a real server on this machine, and fails while the compile waits for it.
"""

import gzip
import time
import tracemalloc
from functools import cache
from typing import Any

import pytest
import tvm
from tvm import te, topi
from tvm.target import Target

import tilefarm
from services.signing import Signer
from tests.client import bad_server
from tests.client.bad_server import BadServer, Behaviour, answering, says
from tests.client.conftest import DEADLINE_SECS, TARGET, FakeService, database, record
from tests.client.test_compile_relax import compiled_right, model
from tilefarm import answers, applied, http, model_tuning, module, signatures
from tilefarm import target as targets
from tilefarm.space import trace_json

SIGNER = Signer.new()


def found(asked: Any, records: dict[str, Any]) -> bytes:
    """The answer to a lookup."""
    return says(
        {
            "target": TARGET,
            "target_key": targets.key(TARGET),
            "records": {shash: [records[shash]] for shash in asked["workloads"]},
            "missing": [],
        }
    )


@cache
def true_records() -> dict[str, Any]:
    """Of the model's functions, signed: the first loop of each is parallel."""
    records = {}
    for task in model_tuning.tunable(model(), None, Target(TARGET), pipeline="compile_relax"):
        workload = module.workload_of(task.func)
        schedule = tvm.s_tir.Schedule(module.copy_of(workload.module))
        block = schedule.get_child_blocks(schedule.get_sblock("root"))[0]
        schedule.parallel(schedule.get_loops(block)[0])
        made = record(module=module.to_json(workload.module), trace=trace_json(schedule))
        records[workload.shash] = signed(made)
    return records


def signed(made: dict[str, Any]) -> dict[str, Any]:
    parsed = answers.parse_record(made, tvm.__version__)
    return made | {"signature": SIGNER.sign(signatures.message(parsed, target_key=targets.key(TARGET)))}


def another_tasks(asked: Any) -> bytes:
    """A record that is good in itself, signature and all, of another function."""
    return found(asked, dict.fromkeys(asked["workloads"], signed(record())))


def tampered(asked: Any) -> bytes:
    """The trace was changed after it was signed."""
    changed = {
        shash: each | {"trace": [[*each["trace"][0], ["EnterPostproc", [], [], []]], each["trace"][1]]}
        for shash, each in true_records().items()
    }
    return found(asked, changed)


@cache
def bomb() -> bytes:
    """128 MiB in half a megabyte."""
    return gzip.compress(bytes(128 << 20), 1)


FAULTS: dict[str, Behaviour] = {
    "killed": bad_server.killed,
    "hung": bad_server.hung,
    "one byte a second": bad_server.one_byte_a_second,
    "500": answering(lambda _: says(b"<html>", status=500, media_type="text/html")),
    "HTML": answering(lambda _: says(b"<html>it works</html>", media_type="text/html")),
    "wrong JSON": answering(lambda _: says({"records": [1], "target": 7})),
    "a list": answering(lambda _: says([None])),
    "endless nesting": answering(lambda _: says(b'{"records":' + b"[" * 100_000)),
    "another task's record": answering(another_tasks),
    "a tampered signature": answering(tampered),
    "hung in the middle of its answer": bad_server.hung_in_the_middle,
    "an answer without end": bad_server.endless,
    "elsewhere": answering(lambda _: says(b"", status=302)),
    "a gzip bomb": answering(lambda _: says(bomb(), encoding="gzip")),
    "a bomb in a bomb": answering(lambda _: says(gzip.compress(bomb()), encoding="gzip, gzip")),
    "an encoding that nobody asked for": answering(lambda _: says(b"x", encoding="br")),
    "what is not gzip": answering(lambda _: says({"records": {}}, encoding="gzip")),
    "half of a gzip": answering(lambda _: says(gzip.compress(b'{"records":{}}')[:-9], encoding="gzip")),
    "ten million lists": answering(lambda _: says(gzip.compress(b"[" + b"[]," * 10**7, 1), encoding="gzip")),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_whatever_the_service_does_the_model_compiles(fault: str) -> None:
    true_records()
    with BadServer(FAULTS[fault]) as server:
        db = tilefarm.connect(
            server.url, "t", timeout_secs=DEADLINE_SECS, on_miss="silent", public_key=SIGNER.public_key
        )
        assert compiled_right(db)
        db.close()
    assert (db.stats().hits, db.stats().errors) == (0, 2)
    # One wait for the service (a lost connection is tried twice), and its own hashing.
    assert db.stats().total_secs < 2 * DEADLINE_SECS
    assert 1 <= server.requests <= 2


def test_the_same_records_untampered_are_used() -> None:
    with BadServer(answering(lambda asked: found(asked, true_records()))) as server:
        db = tilefarm.connect(server.url, "t", on_miss="silent", public_key=SIGNER.public_key)
        assert compiled_right(db)
        db.close()
    assert (db.stats().hits, db.stats().errors, server.requests) == (2, 0, 1)


@pytest.mark.parametrize("fault", ["hung", "one byte a second", "a gzip bomb", "HTML", "500"])
def test_the_farms_target_is_within_the_same_deadline(fault: str) -> None:
    with BadServer(FAULTS[fault]) as server:
        db = tilefarm.connect(server.url, "t", timeout_secs=DEADLINE_SECS, on_miss="silent")
        began = time.monotonic()
        with pytest.raises(tilefarm.ServiceError):
            db.target("local")
        assert time.monotonic() - began < 2 * DEADLINE_SECS
        assert compiled_right(db)
        db.close()
    # Nobody asked again: what was waited for the target is not waited for once more.
    assert server.requests == 1


def test_nobody_listens() -> None:
    with BadServer(bad_server.hung) as server:
        url = server.url
    db = tilefarm.connect(url, "t", timeout_secs=DEADLINE_SECS, on_miss="silent")
    assert compiled_right(db)
    assert (db.stats().hits, db.stats().errors) == (0, 2)


@pytest.mark.parametrize("times", [1, 2])
def test_what_is_inflated_stays_within_its_bound(times: int) -> None:
    content, encoding = (bomb(), "gzip") if times == 1 else (gzip.compress(bomb()), "gzip, gzip")
    with (
        BadServer(answering(lambda _: says(content, encoding=encoding))) as server,
        tilefarm.Client(server.url, "t") as client,
    ):
        tracemalloc.start()
        with pytest.raises(tilefarm.BadAnswerError):
            client.lookup(TARGET, tvm_version=tvm.__version__, workloads=["0" * 16])
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak_bytes < 3 * http.MAX_ANSWER_BYTES


def test_records_that_prove_wrong_are_not_tried_for_longer_than_a_deadline(
    service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def slow(*_: Any) -> Any:
        tried.append(time.sleep(0.8))
        raise tilefarm.TraceError("it does not apply")

    def function(length: int) -> tvm.IRModule:
        a = te.placeholder((length,), name="A")
        return tvm.IRModule({"main": te.create_prim_func([a, topi.exp(a)])})

    monkeypatch.setattr(applied, "apply", slow)
    mods = [function(length) for length in range(1, 7)]
    service.records = {module.workload_of(mod).shash: record() for mod in mods}
    db = database(service, timeout_secs=1.5, on_miss="silent")
    assert all(db.query_tuning_record(mod, Target(TARGET), "main") is None for mod in mods)
    assert len(tried) == 2
    db.refresh()
    assert db.query_tuning_record(mods[0], Target(TARGET), "main") is None
    assert len(tried) == 3
