# ruff: noqa: N803, N805, N806, N812 - TVMScript has its own names
"""Real TVM on this side, and on the other a service of thirty lines behind httpx's MockTransport."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import tvm
from tvm.script import ir as I
from tvm.script import tirx as T

import tilefarm
from tilefarm import answers, module, summary
from tilefarm import target as targets
from tilefarm.space import trace_json

TARGET = {"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2}
URL = "http://farm.test"
#: Longer than a busy machine holds up a process: two waits then differ from one.
DEADLINE_SECS = 2.0


@I.ir_module
class MMRelu:
    @T.prim_func(s_tir=True)
    def mm_relu(
        A: T.Buffer((64, 64), "float32"),
        B: T.Buffer((64, 64), "float32"),
        C: T.Buffer((64, 64), "float32"),
    ):
        T.func_attr({"global_symbol": "mm_relu", "tirx.noalias": True})
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
                C[vi, vj] = T.max(Y[vi, vj], T.float32(0))


def renamed(symbol: str, **attrs: Any) -> tvm.IRModule:
    """The same function under another name, with further attributes."""
    func = MMRelu["mm_relu"].with_attr("global_symbol", symbol)
    for name, value in attrs.items():
        func = func.with_attr(name, value)
    return tvm.IRModule({symbol: func})


def space(schedule: Any) -> None:
    """Tiles and parallelises: what a tuned schedule looks like."""
    block = schedule.get_sblock("Y", func_name="main")
    i, j, k = schedule.get_loops(block)
    i_0, i_1 = schedule.split(
        i, schedule.sample_perfect_tile(i, n=2, max_innermost_factor=16, decision=[8, 8])
    )
    schedule.reorder(i_0, k, i_1, j)
    schedule.parallel(i_0)


def record(**changes: Any) -> dict[str, Any]:
    """What the service has for MMRelu on TARGET."""
    canonical = module.workload_of(MMRelu).module
    schedule = tvm.s_tir.Schedule(canonical)
    space(schedule)
    return {
        "record_id": "1",
        "etag": "e1",
        "module": module.to_json(canonical),
        "trace": trace_json(schedule),
        "run_secs": [1e-5, 1.1e-5],
        "latency_secs": 1.05e-5,
        "tvm_version": tvm.__version__,
        "device_class": "test",
        "created_at": "2026-01-01T00:00:00Z",
        **changes,
    }


class FakeService:
    """Answers lookups from `records` for exactly `target`; other paths from `routes`."""

    def __init__(self) -> None:
        self.records: dict[str, dict[str, Any]] = {}
        self.routes: dict[str, Callable[[httpx.Request], httpx.Response]] = {}
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        route = self.routes.get(f"{request.method} {request.url.path}")
        if route is not None:
            return route(request)
        if request.url.path == "/v1/lookup" and request.method == "GET":
            return self._lookup_again(request)
        if request.url.path == "/v1/lookup":
            return httpx.Response(200, json=self._lookup(json.loads(request.content)))
        return problem(404, "not_found", "there is nothing here")

    def _lookup(self, asked: dict[str, Any]) -> dict[str, Any]:
        target = targets.canonical(asked["target"])
        known = self.records if target == TARGET else {}
        found = {shash: [known[shash]] for shash in asked["workloads"] if shash in known}
        missing = [
            {"shash": shash, "nearest": "the same on 4 cores", "hint": ""}
            for shash in asked["workloads"]
            if shash not in found
        ]
        return {"target": target, "target_key": targets.key(target), "records": found, "missing": missing}

    def _lookup_again(self, request: httpx.Request) -> httpx.Response:
        params = dict(request.url.params)
        asked = {"target": json.loads(params["target"]), "workloads": params["workloads"].split(",")}
        answer = self._lookup(asked)
        etags = {shash: self.records.get(shash, {}).get("etag", "") for shash in asked["workloads"]}
        etag = answers.batch_etag(answer["target_key"], params["tvm_version"], etags)
        if request.headers["If-None-Match"] == etag:
            return httpx.Response(304)
        return httpx.Response(200, json=answer)

    def bodies(self) -> list[Any]:
        return [json.loads(request.content) for request in self.requests if request.content]


def problem(status: int, code: str, detail: str, **fields: Any) -> httpx.Response:
    body = {
        "type": f"https://tilefarm.dev/problems/{code}",
        "title": code,
        "status": status,
        "detail": detail,
    }
    return httpx.Response(status, json={**body, **fields})


@pytest.fixture
def service() -> FakeService:
    """It knows MMRelu on TARGET."""
    fake = FakeService()
    fake.records[module.workload_of(MMRelu).shash] = record()
    return fake


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("TILEFARM_URL", "TILEFARM_TOKEN", "TILEFARM_TIMEOUT_SECS", "TILEFARM_LOCK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(summary._process, "_totals", {})
    monkeypatch.setenv("TILEFARM_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TILEFARM_DATA_DIR", str(tmp_path / "data"))


def database(service: Callable[[httpx.Request], httpx.Response], **options: Any) -> Any:
    return tilefarm.connect(URL, "secret", transport=httpx.MockTransport(service), **options)


@contextmanager
def unanswered() -> Iterator[Callable[[httpx.Request], httpx.Response]]:
    """A service that answers nobody until the end, when all that asked are answered with an empty object."""
    ended = threading.Event()

    def hanging(_: httpx.Request) -> httpx.Response:
        ended.wait(60)
        return httpx.Response(200, json={})

    try:
        yield hanging
    finally:
        ended.set()
