"""`tilefarm import`: stock's files are read line by line, and what cannot be used is counted, not fatal."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
import tvm
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule.database import JSONDatabase
from tvm.target import Target

from tests.client.conftest import TARGET, FakeService, MMRelu, problem, record, space
from tests.client.test_cli import run
from tests.client.test_database import SHASH
from tilefarm import module, stockreading
from tilefarm import target as targets
from tilefarm.cli import importing
from tilefarm.stockfiles import PROVENANCE, RECORDS, WORKLOADS

CANONICAL = module.workload_of(MMRelu).module


@pytest.fixture
def stock_dir(tmp_path: Path) -> Path:
    """What TVM itself writes: two records of MMRelu."""
    directory = tmp_path / "work"
    directory.mkdir()
    database = JSONDatabase(work_dir=str(directory))
    workload = database.commit_workload(CANONICAL)
    args = ms.arg_info.ArgInfo.from_prim_func(CANONICAL["main"])
    for secs in (2e-5, 1e-5):
        schedule = tvm.s_tir.Schedule(CANONICAL)
        space(schedule)
        database.commit_tuning_record(
            ms.database.TuningRecord(schedule.trace, workload, [secs], Target(TARGET), args)
        )
    return directory


@pytest.fixture
def farm(service: FakeService) -> FakeService:
    def quarantine(request: httpx.Request) -> httpx.Response:
        workloads = json.loads(request.content)["workloads"]
        return taken(*(list(range(len(workload["records"]))) for workload in workloads))

    service.routes["POST /v1/records:import-many"] = quarantine
    return service


def taken(*quarantined: list[int], refused: list[dict[str, Any]] | None = None) -> httpx.Response:
    answers = [{"quarantined": ids, "known": 0, "refused": refused or []} for ids in quarantined]
    return httpx.Response(200, json={"workloads": [{"taken": each, "refused": None} for each in answers]})


def sent(farm: FakeService) -> list[dict[str, Any]]:
    return [workload for body in farm.bodies() for workload in body["workloads"]]


def counts(capsys: pytest.CaptureFixture[str]) -> dict[str, int]:
    found: dict[str, int] = json.loads(capsys.readouterr().out)
    return {name: count for name, count in found.items() if count}


def test_what_stock_wrote_travels_as_it_is(
    farm: FakeService, stock_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(farm, "import", str(stock_dir), "-o", "json") == 0
    (body,) = farm.bodies()
    (workload,) = body["workloads"]
    assert (workload["target"], body["tvm_version"], body["source"]) == (TARGET, tvm.__version__, "work")
    assert module.workload_of(module.from_json(workload["module"])).shash == SHASH
    assert [each["run_secs"] for each in workload["records"]] == [[2e-5], [1e-5]]
    assert workload["records"][0]["trace"] == record()["trace"]
    assert counts(capsys) == {"quarantined": 2}


def test_lines_that_cannot_be_used_are_counted(
    farm: FakeService, stock_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = stock_dir / RECORDS
    first = path.read_text().splitlines()[0]
    index, (trace, run_secs, target, args) = json.loads(first)

    def line(**changes: Any) -> str:
        parts = {"trace": trace, "run_secs": run_secs, "target": target, **changes}
        return json.dumps(
            [changes.get("index", index), [*(parts[n] for n in ("trace", "run_secs", "target")), args]]
        )

    hostile = [[["Annotate", ["b0", '"x"'], ["pragma_import_llvm"], []]], []]
    old_target = "llvm -keys=cpu -mcpu=x86-64-v3 -num-cores=2"
    lines = [
        line(target=old_target),
        line(run_secs=[1e10]),
        line(run_secs=[]),
        line(target={"kind": "hexagon"}),
        line(index=7),
        line(index=[1]),
        line(run_secs=[10**400]),
        line(trace=hostile),
        '{"not": "a record"}',
        first[: len(first) // 2],
    ]
    path.write_text("\n".join(lines))
    assert run(farm, "import", str(stock_dir), "-o", "json") == 0
    assert counts(capsys) == {
        "quarantined": 1,
        "unreadable_lines": 4,
        "failed_measurements": 2,
        "unknown_targets": 1,
        "unusable_workloads": 1,
        "unusable_traces": 1,
    }
    assert sent(farm)[0]["target"] == TARGET


def test_records_are_sent_in_bounded_batches(
    farm: FakeService, stock_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = stock_dir / RECORDS
    path.write_text(path.read_text().splitlines()[0] + "\n")
    path.write_text(path.read_text() * (stockreading._BATCH * 2 + 3))
    assert run(farm, "import", str(stock_dir), "-o", "json") == 0
    assert [len(workload["records"]) for workload in sent(farm)] == [64, 64, 3]
    assert len(farm.bodies()) == 1
    assert counts(capsys) == {"quarantined": 131}


def test_a_request_is_bounded_too(
    farm: FakeService,
    stock_dir: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = stock_dir / RECORDS
    path.write_text(path.read_text().splitlines()[0] + "\n")
    path.write_text(path.read_text() * (stockreading._BATCH * 5 + 1))

    def requests() -> list[int]:
        farm.requests.clear()
        assert run(farm, "import", str(stock_dir), "-o", "json") == 0
        assert counts(capsys) == {"quarantined": 321}
        return [sum(len(each["records"]) for each in body["workloads"]) for body in farm.bodies()]

    assert requests() == [256, 65]
    monkeypatch.setattr(importing, "_MAX_CHARS", 1)
    assert requests() == [64, 64, 64, 64, 64, 1]


def test_what_the_service_refuses_is_told(
    farm: FakeService, stock_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    route = "POST /v1/records:import-many"
    refused = [{"index": 0, "code": "bad_trace", "detail": "it does not apply"}]
    farm.routes[route] = lambda _: taken([5], refused=refused)
    assert run(farm, "import", str(stock_dir)) == 1
    assert "it does not apply" in capsys.readouterr().err
    whole = {"taken": None, "refused": {"code": "another_tvm", "detail": "this service runs another"}}
    farm.routes[route] = lambda _: httpx.Response(200, json={"workloads": [whole]})
    assert run(farm, "import", str(stock_dir), "-o", "json") == 1
    told = capsys.readouterr()
    assert "this service runs another" in told.err
    assert json.loads(told.out)["refused"] == 2
    farm.routes[route] = lambda _: httpx.Response(200, json={"workloads": []})
    assert run(farm, "import", str(stock_dir)) != 0
    farm.routes[route] = lambda _: problem(403, "missing_scope", "no")
    assert run(farm, "import", str(stock_dir)) == 4
    assert run(farm, "import", str(tmp_path / "nothing")) == 2


def test_what_was_imported_is_exported_as_stock_had_it(
    farm: FakeService, stock_dir: Path, tmp_path: Path
) -> None:
    """From stock's files to the service and back: same workloads, traces, times and targets."""
    brought: list[dict[str, Any]] = []

    def quarantine(request: httpx.Request) -> httpx.Response:
        (workload,) = json.loads(request.content)["workloads"]
        brought.extend({"module": workload["module"], **each} for each in workload["records"])
        return taken([1])

    def view(number: int) -> dict[str, Any]:
        version = {"id": number, "workload": SHASH, "tvm_version": tvm.__version__}
        return {**brought[number], **version, "policy": {"imported_by": "me"}}

    farm.routes["POST /v1/records:import-many"] = quarantine
    assert run(farm, "import", str(stock_dir)) == 0
    farm.routes["GET /v1/records"] = lambda _: httpx.Response(
        200, json={"records": [view(number) for number in range(len(brought))], "next_page_token": None}
    )
    for number in range(len(brought)):
        farm.routes[f"GET /v1/records/{number}"] = lambda request: httpx.Response(
            200, json=view(int(request.url.path.rpartition("/")[2]))
        )
    again = tmp_path / "again"
    assert run(farm, "export", str(again), "--target", json.dumps(TARGET), "--imports") == 0
    first, second = (
        ms.database.JSONDatabase(work_dir=str(directory)).get_all_tuning_records()
        for directory in (stock_dir, again)
    )
    assert len(first) == len(second) == 2
    assert len((again / WORKLOADS).read_text().splitlines()) == 1
    for mine, theirs in zip(second, first, strict=True):
        assert str(mine.trace) == str(theirs.trace)
        assert [float(secs) for secs in mine.run_secs] == [float(secs) for secs in theirs.run_secs]
        assert targets.of_tvm(mine.target) == targets.of_tvm(theirs.target)
        assert [str(arg) for arg in mine.args_info] == [str(arg) for arg in theirs.args_info]
        assert module.equal(mine.workload.mod, theirs.workload.mod)
    provenance = [json.loads(line) for line in (again / PROVENANCE).read_text().splitlines()]
    assert [line["origin"] for line in provenance] == [{"imported_by": "me"}] * 2
