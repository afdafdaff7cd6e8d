"""What connect takes and refuses, what a miss sets off, and what is told at the end of a process."""

import json
import logging
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest
import tvm
from tvm import te, topi
from tvm.s_tir.meta_schedule.relax_integration import compile_relax
from tvm.target import Target

import tilefarm
from checks.graph import check_module_json
from examples.models import models
from tests.client.conftest import TARGET, URL, FakeService, database, problem, renamed
from tests.client.test_cli import run
from tests.client.test_database import compiled
from tilefarm import model_tuning, module, submitting, summary
from tilefarm.stats import Stats


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"public_key": "MCowBQYDK2VwAyEA"}, tilefarm.NotConfiguredError),
        ({"mode": "write"}, tilefarm.NotConfiguredError),
        ({"on_miss": "shout"}, tilefarm.NotConfiguredError),
    ],
)
def test_connect_refuses_what_it_cannot_keep(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        tilefarm.connect(URL, **options)


def test_a_cache_bound_that_does_not_read_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEFARM_CACHE_MAX_BYTES", "1GB")
    with pytest.raises(tilefarm.NotConfiguredError, match="TILEFARM_CACHE_MAX_BYTES"):
        tilefarm.connect(URL)


def test_silent_says_nothing(service: FakeService, caplog: pytest.LogCaptureFixture) -> None:
    service.records.clear()
    with caplog.at_level(logging.INFO, logger="tilefarm"):
        assert compiled(database(service, on_miss="silent")) is None
    assert caplog.messages == []


def test_submit_sends_each_missed_workload_once_and_nobody_waits(
    service: FakeService, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    service.records.clear()
    let_go = threading.Event()

    def slow(_: httpx.Request) -> httpx.Response:
        assert let_go.wait(10)
        return httpx.Response(201, json={"id": "7", "state": "queued"})

    service.routes["POST /v1/jobs"] = slow
    db = database(service, on_miss="submit")
    assert compiled(db) is None
    assert compiled(db, renamed("other")) is None
    let_go.set()
    db.close()
    (sent,) = [request for request in service.requests if request.url.path == "/v1/jobs"]
    body = json.loads(sent.content)
    assert (body["target"], body["priority"], body["max_trials"]) == (TARGET, -10, 256)
    assert "being sent to the farm" in caplog.text
    again = database(service, on_miss="submit", cache_dir=tmp_path / "another host")
    assert compiled(again) is None
    again.close()
    keys = {
        request.headers.get("Idempotency-Key") for request in service.requests if b"nodes" in request.content
    }
    assert len(keys) == 1


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow this machine is, what one compile misses comes soon enough; closing sends at once."""
    monkeypatch.setattr(submitting, "_GATHER_SECS", 30.0)


def submitted(service: FakeService) -> list[dict[str, Any]]:
    return [json.loads(request.content) for request in service.requests if request.url.path == "/v1/jobs"]


def test_what_a_model_misses_is_one_job_with_a_task_for_each_function(service: FakeService) -> None:
    """Weighed by its calls; the view of a tensor that it asks for too is none. Two models are two jobs."""
    service.routes["POST /v1/jobs"] = lambda _: httpx.Response(201, json={"id": "7", "state": "queued"})
    target = Target(TARGET)
    asked = [models()["mlp"]().bound(), models()["transformer"](length=8, width=16, heads=2).bound()]
    db = database(service, on_miss="submit")
    for model in asked:
        compile_relax(db, model, target, params=None)
    db.close()
    bodies = submitted(service)
    assert [len(body["weights"]) for body in bodies] == [2, 11]
    tasks = {
        task.name: task for task in model_tuning.tunable(asked[1], None, target, pipeline="compile_relax")
    }
    assert bodies[1]["weights"] == {name: float(task.weight) for name, task in tasks.items()}
    assert bodies[1]["weights"]["fused_matmul_add"] == 3.0
    assert (bodies[1]["max_trials"], bodies[1]["priority"]) == (256 * 11, -10)
    assert bodies[1]["name"].endswith(" and 10 more")
    text = bodies[1]["module"]
    check_module_json(json.loads(text))
    assert "Span" not in text
    functions = dict(module.prim_funcs(tvm.ir.load_json(text)))
    assert functions.keys() == tasks.keys()
    for name, func in functions.items():
        assert str(func.attrs["global_symbol"]) == name
        assert module.workload_of(func).shash == module.workload_of(tasks[name].func).shash


def test_what_was_missed_is_sent_once_nothing_more_comes(
    service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submitting, "_GATHER_SECS", 0.05)
    service.records.clear()
    arrived = threading.Event()

    def take(_: httpx.Request) -> httpx.Response:
        arrived.set()
        return httpx.Response(201, json={"id": "7", "state": "queued"})

    service.routes["POST /v1/jobs"] = take
    db = database(service, on_miss="submit")
    assert compiled(db) is None
    assert arrived.wait(10)
    db.close()


def test_functions_whose_module_cannot_be_seen_are_gathered(service: FakeService) -> None:
    """stock compile_tir asks for one function at a time; what comes within a moment is one job."""
    service.records.clear()
    service.routes["POST /v1/jobs"] = lambda _: httpx.Response(201, json={"id": "7", "state": "queued"})
    db = database(service, on_miss="submit")
    for width in (8, 16):
        x = te.placeholder((width,), name="x")
        doubled = te.create_prim_func([x, topi.multiply(x, x)])
        assert compiled(db, tvm.IRModule({"main": doubled})) is None
    db.close()
    (body,) = submitted(service)
    assert [name.startswith("main") for name in body["weights"]] == [True, True]


@pytest.mark.parametrize(("code", "lines"), [("idempotency_key_reused", 0), ("budget", 1)])
def test_a_refused_submission_is_a_line_in_the_log(
    service: FakeService, caplog: pytest.LogCaptureFixture, code: str, lines: int
) -> None:
    service.records.clear()
    service.routes["POST /v1/jobs"] = lambda _: problem(422, code, "no")
    db = database(service, on_miss="submit")
    assert compiled(db) is None
    db.close()
    assert caplog.text.count("was not submitted") == lines


def test_nothing_is_submitted_for_what_nobody_answered(service: FakeService) -> None:
    service.routes["POST /v1/lookup"] = lambda _: httpx.Response(500)
    db = database(service, on_miss="submit")
    assert compiled(db) is None
    db.close()
    assert [request.url.path for request in service.requests] == ["/v1/lookup"]


def test_the_end_of_a_process_is_told_aloud_only_where_something_was_missed(
    service: FakeService, caplog: pytest.LogCaptureFixture
) -> None:
    compiled(database(service))
    with caplog.at_level(logging.INFO, logger="tilefarm"):
        summary._process.say()
    assert [(line.levelno, line.message.split(" in tilefarm")[0][:33]) for line in caplog.records] == [
        (logging.INFO, f"tilefarm {URL}: 1 hits")
    ]
    compiled(database(service, on_miss="silent"), target={**TARGET, "num-cores": 4})
    summary._process.say()
    assert logging.WARNING not in {line.levelno for line in caplog.records}
    compiled(database(service), target={**TARGET, "num-cores": 8})
    summary._process.say()
    told = [line.getMessage() for line in caplog.records if line.levelno == logging.WARNING][-1]
    assert "1 hits, 1 misses, 0 errors" in told


def test_stats_adds_up_what_processes_left(
    service: FakeService, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        compiled(database(service))
        summary._process.say()
    path = tmp_path / "cache" / "stats.jsonl"
    with path.open("a") as file:
        file.write('{"at": 1, "url": "http://old.test", "stats": {"hits": 9}}\n{"at": 17')
    assert run(service, "stats", "-o", "json") == 0
    told = json.loads(capsys.readouterr().out)
    (farm,) = told["services"]
    assert (farm["url"], farm["processes"], farm["hits"], farm["hit_rate"]) == (URL, 2, 3, 1.0)
    assert told["cache"]["answers"] == 1
    assert told["cache"]["size_bytes"] > 1000
    assert run(service, "stats") == 0
    assert "100%" in capsys.readouterr().out
    assert service.requests[1:] == []


def test_the_statistics_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary, "_MAX_FILE_BYTES", 2000)
    for number in range(100):
        summary._append(tmp_path / "stats.jsonl", summary.Entry(at=number, url=URL, stats=Stats(hits=number)))
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 5000
    assert [entry.stats.hits for entry in summary.entries(tmp_path)][-1] == 99


def test_a_process_that_missed_says_so_at_its_end(tmp_path: Path) -> None:
    code = (
        "from tilefarm import summary; from pathlib import Path;"
        f"told = summary.counters('http://x.test', Path({str(tmp_path)!r}), aloud=True);"
        "told.add(misses=2, total_secs=0.5)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    assert ended.stderr == (
        "tilefarm http://x.test: 0 hits, 2 misses, 0 errors, 0 skipped, 0.500 s in tilefarm\n"
    )
    assert [entry.stats.misses for entry in summary.entries(tmp_path)] == [2]
