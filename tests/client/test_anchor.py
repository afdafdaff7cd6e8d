# ruff: noqa: N803, N805, N806, N812 - TVMScript has its own names
"""Near hits by the anchor block: another function's record, made one of the asked function, or no record."""

import json
import logging
from typing import Any

import httpx
import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import tirx as T
from tvm.target import Target

from tests.client.conftest import TARGET, FakeService, MMRelu, database, record, space
from tests.client.test_cache import _plain
from tests.client.test_database import compiled, is_tuned
from tests.client.test_signatures import SIGNER, signed
from tilefarm import anchor, module
from tilefarm import target as targets
from tilefarm.errors import TraceError
from tilefarm.space import trace_json


@I.ir_module
class MMBias:
    """The product of MMRelu, with something else behind it."""

    @T.prim_func(s_tir=True)
    def mm_bias(
        A: T.Buffer((64, 64), "float32"),
        B: T.Buffer((64, 64), "float32"),
        bias: T.Buffer((64,), "float32"),
        D: T.Buffer((64, 64), "float32"),
    ):
        T.func_attr({"global_symbol": "mm_bias", "tirx.noalias": True})
        Y = T.sblock_alloc_buffer((64, 64), dtype="float32")
        for i, j, k in T.grid(64, 64, 64):
            with T.sblock("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + A[vi, vk] * B[vk, vj]
        for i, j in T.grid(64, 64):
            with T.sblock("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = Y[vi, vj] + bias[vj]


@I.ir_module
class MM:
    """The product alone: it is an output here, and no buffer of its own."""

    @T.prim_func(s_tir=True)
    def mm(A: T.Buffer((64, 64), "float32"), B: T.Buffer((64, 64), "float32"), C: T.Buffer((64, 64))):
        T.func_attr({"global_symbol": "mm", "tirx.noalias": True})
        for i, j, k in T.grid(64, 64, 64):
            with T.sblock("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


def anchored(**changes: Any) -> dict[str, Any]:
    """MMRelu's record, as the service answers it for another workload."""
    named = {"rule": "anchor-block", "target": TARGET, "target_key": targets.key(TARGET)}
    return record() | named | changes


@pytest.fixture
def farm(service: FakeService) -> FakeService:
    """It has MMRelu's record alone, and offers it wherever the anchor block's hash is the same."""
    service.records.clear()
    service.offered = anchored()  # type: ignore[attr-defined]
    known = anchor.hash_of(module.workload_of(MMRelu).module)

    def look_up(request: httpx.Request) -> httpx.Response:
        asked = json.loads(request.content)
        found = {s: service.offered for s, a in asked.get("anchors", {}).items() if a == known}  # type: ignore[attr-defined]
        return httpx.Response(200, json=service._lookup(asked) | {"near": found})

    service.routes["POST /v1/lookup"] = look_up
    return service


def runs_right(mod: Any) -> bool:
    rng = np.random.default_rng(0)
    a, b, bias = (rng.random(shape, dtype="float32") - 0.5 for shape in ((64, 64), (64, 64), (64,)))
    out = tvm.runtime.tensor(np.zeros((64, 64), "float32"))
    tvm.compile(mod, Target(TARGET))["mm_bias"](*map(tvm.runtime.tensor, (a, b, bias)), out)
    return bool(np.allclose(out.numpy(), a @ b + bias, rtol=1e-4, atol=1e-5))


@pytest.mark.parametrize("options", [{"near": ["anchor-block"]}, {"module_equality": "anchor-block"}])
def test_another_functions_schedule_is_taken_over_and_says_so(
    farm: FakeService, caplog: pytest.LogCaptureFixture, options: dict[str, Any]
) -> None:
    db = database(farm, **options)
    with caplog.at_level(logging.WARNING, logger="tilefarm"), Target(TARGET), db:
        applied = relax.transform.MetaScheduleApplyDatabase()(MMBias)
    assert is_tuned(applied)
    assert runs_right(applied)
    (told,) = caplog.messages
    assert "no exact record" in told
    assert "of another function, near by anchor-block" in told
    assert (db.stats().hits, db.stats().near, db.stats().misses) == (0, 1, 0)


def test_it_is_off_unless_it_was_named(farm: FakeService) -> None:
    for db in (database(farm, on_miss="silent"), database(farm, on_miss="silent", near=["num-cores"])):
        assert compiled(db, MMBias) is None
    assert all("anchors" not in body for body in farm.bodies())


def _another_anchor() -> dict[str, Any]:
    func = MMRelu["mm_relu"].script().replace("+ A[", "- A[")
    other = module.workload_of(tvm.script.from_source(func)).module
    return anchored(module=module.to_json(other))


def _moved() -> dict[str, Any]:
    """Its trace writes the product in another order of dimensions."""
    canonical = module.workload_of(MMRelu).module
    schedule = tvm.s_tir.Schedule(canonical)
    schedule.transform_layout(schedule.get_sblock("Y"), ("write", 0), lambda i, j: (j, i))
    space(schedule)
    return anchored(trace=trace_json(schedule))


HOSTILE = {
    "another anchor block": _another_anchor(),
    "another target": anchored(target={**TARGET, "num-cores": 4}),
    "a hostile trace": anchored(trace=[[["UnsafeSetDType", [], [], []]], []]),
    "a trace of nothing there": anchored(trace=[[["GetSBlock", [], ["Z", "main"], ["b0"]]], []]),
}


@pytest.mark.parametrize("found", HOSTILE.values(), ids=HOSTILE.keys())
def test_on_any_doubt_there_is_none(farm: FakeService, found: dict[str, Any]) -> None:
    farm.offered = found  # type: ignore[attr-defined]
    db = database(farm, near=["anchor-block"], on_miss="silent")
    assert compiled(db, MMBias) is None
    assert (db.stats().near, db.stats().hits) == (0, 0)


def test_a_schedule_that_would_change_the_callers_buffers_is_not_taken_over(farm: FakeService) -> None:
    """What is a buffer inside MMRelu is the caller's own in MM, and has the caller's layout."""
    assert compiled(database(farm, near=["anchor-block"]), MM) is not None
    farm.offered = _moved()  # type: ignore[attr-defined]
    db = database(farm, near=["anchor-block"], on_miss="silent")
    assert compiled(db, MM) is None
    assert (db.stats().near, db.stats().misses) == (0, 1)
    source, asked = (module.workload_of(mod).module for mod in (MMRelu, MM))
    with pytest.raises(TraceError, match="lays out buffers anew"):
        anchor.trace_for(asked, _moved()["trace"], of=source, target=Target(TARGET))


def test_its_signature_is_that_of_its_own_function(farm: FakeService) -> None:
    for found, tuned in ((signed(), True), (record(), False)):
        farm.offered = anchored() | {"signature": found.get("signature")}  # type: ignore[attr-defined]
        db = database(farm, near=["anchor-block"], public_key=SIGNER.public_key, on_miss="silent")
        assert (compiled(db, MMBias) is not None) == tuned


def test_a_function_that_reduces_nothing_has_no_anchor_block() -> None:
    canonical = module.workload_of(tvm.IRModule({"plain": _plain()})).module
    assert anchor.hash_of(canonical) is None
    assert not anchor.equal(canonical, canonical)
