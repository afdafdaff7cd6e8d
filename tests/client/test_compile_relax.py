"""Stock compile_relax while the service fails: the model compiles, in bounded time, to the right numbers."""

import json
import time
from collections.abc import Callable, Iterator

import httpx
import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.s_tir.meta_schedule.relax_integration import compile_relax
from tvm.target import Target

from tests.client.conftest import TARGET, FakeService, database
from tilefarm import target as targets

DEADLINE_SECS = 0.3


def model() -> tvm.IRModule:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((64, 64), "float32"))
    w = relax.Var("w", relax.TensorType((64, 64), "float32"))
    with builder.function("main", [x, w]):
        with builder.dataflow():
            hidden = builder.emit(relax.op.nn.relu(relax.op.matmul(x, w)))
            out = builder.emit_output(builder.emit(relax.op.nn.softmax(hidden)))
        builder.emit_func_output(out)
    return builder.get()


def compiled_right(db: object) -> bool:
    """As numpy computes it."""
    executable = compile_relax(db, model(), Target(TARGET), params=None)
    rng = np.random.default_rng(1)
    x, w = (rng.random((64, 64), dtype="float32") - 0.5 for _ in range(2))
    out = relax.VirtualMachine(executable, tvm.cpu())["main"](tvm.runtime.tensor(x), tvm.runtime.tensor(w))
    hidden = np.maximum(x @ w, 0)
    powers = np.exp(hidden - hidden.max(axis=-1, keepdims=True))
    return bool(np.allclose(out.numpy(), powers / powers.sum(axis=-1, keepdims=True), rtol=1e-4, atol=1e-5))


def killed(_: httpx.Request) -> httpx.Response:
    raise httpx.ReadError("connection reset")


def hung(_: httpx.Request) -> httpx.Response:
    time.sleep(1.0)
    raise httpx.ReadTimeout("late")


def one_byte_a_second(_: httpx.Request) -> httpx.Response:
    def trickle() -> Iterator[bytes]:
        for byte in b'{"records"':
            yield bytes([byte])
            time.sleep(0.2)

    return httpx.Response(200, content=trickle())


def another_tasks_record(request: httpx.Request) -> httpx.Response:
    asked = json.loads(request.content)
    found = {
        "record_id": 1,
        "module": "{}",
        "trace": [[], []],
        "run_secs": [1e-9],
        "tvm_version": tvm.__version__,
    }
    answer = {
        "target": TARGET,
        "target_key": targets.key(TARGET),
        "records": {shash: [found] for shash in asked["workloads"]},
        "missing": [],
    }
    return httpx.Response(200, json=answer)


@pytest.mark.parametrize(
    "fault",
    [
        killed,
        hung,
        one_byte_a_second,
        another_tasks_record,
        lambda _: httpx.Response(500, content=b"<html>"),
    ],
    ids=["killed", "hung", "slow", "another task's", "500"],
)
def test_whatever_the_service_does_the_model_compiles(
    fault: Callable[[httpx.Request], httpx.Response],
) -> None:
    db = database(fault, timeout_secs=DEADLINE_SECS, on_miss="silent")
    assert compiled_right(db)
    assert (db.stats().hits, db.stats().errors) == (0, 2)
    # One wait for the service, and its own hashing.
    assert db.stats().total_secs < DEADLINE_SECS + 0.5


def test_a_model_is_one_request(service: FakeService) -> None:
    db = database(service, on_miss="silent")
    assert compiled_right(db)
    assert [len(body["workloads"]) for body in service.bodies()] == [2]
    assert db.stats().misses == 2
