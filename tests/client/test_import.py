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
        ids = list(range(len(json.loads(request.content)["records"])))
        return httpx.Response(200, json={"quarantined": ids, "known": 0, "refused": []})

    service.routes["POST /v1/records:import"] = quarantine
    return service


def counts(capsys: pytest.CaptureFixture[str]) -> dict[str, int]:
    found: dict[str, int] = json.loads(capsys.readouterr().out)
    return {name: count for name, count in found.items() if count}


def test_what_stock_wrote_travels_as_it_is(
    farm: FakeService, stock_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(farm, "import", str(stock_dir), "-o", "json") == 0
    (body,) = farm.bodies()
    assert (body["target"], body["tvm_version"], body["source"]) == (TARGET, tvm.__version__, "work")
    assert module.workload_of(module.from_json(body["module"])).shash == SHASH
    assert [sent["run_secs"] for sent in body["records"]] == [[2e-5], [1e-5]]
    assert body["records"][0]["trace"] == record()["trace"]
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
        line(trace=hostile),
        '{"not": "a record"}',
        first[: len(first) // 2],
    ]
    path.write_text("\n".join(lines))
    assert run(farm, "import", str(stock_dir), "-o", "json") == 0
    assert counts(capsys) == {
        "quarantined": 1,
        "unreadable_lines": 2,
        "failed_measurements": 2,
        "unknown_targets": 1,
        "unusable_workloads": 1,
        "unusable_traces": 1,
    }
    assert farm.bodies()[0]["target"] == TARGET


def test_records_are_sent_in_bounded_batches(
    farm: FakeService, stock_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = stock_dir / RECORDS
    path.write_text(path.read_text().splitlines()[0] + "\n")
    path.write_text(path.read_text() * (stockreading._BATCH * 2 + 3))
    assert run(farm, "import", str(stock_dir), "-o", "json") == 0
    assert [len(body["records"]) for body in farm.bodies()] == [64, 64, 3]
    assert counts(capsys) == {"quarantined": 131}


def test_what_the_service_refuses_is_told(
    farm: FakeService, stock_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = [{"index": 0, "code": "bad_trace", "detail": "it does not apply"}]
    farm.routes["POST /v1/records:import"] = lambda _: httpx.Response(
        200, json={"quarantined": [5], "known": 0, "refused": refused}
    )
    assert run(farm, "import", str(stock_dir)) == 1
    assert "it does not apply" in capsys.readouterr().err
    farm.routes["POST /v1/records:import"] = lambda _: problem(422, "another_tvm", "no")
    assert run(farm, "import", str(stock_dir)) == 1
    farm.routes["POST /v1/records:import"] = lambda _: problem(403, "missing_scope", "no")
    assert run(farm, "import", str(stock_dir)) == 4
    assert run(farm, "import", str(tmp_path / "nothing")) == 2


def test_what_was_imported_is_exported_as_stock_had_it(
    farm: FakeService, stock_dir: Path, tmp_path: Path
) -> None:
    """From stock's files to the service and back: same workloads, traces, times and targets."""
    brought: list[dict[str, Any]] = []

    def quarantine(request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        brought.extend({"module": body["module"], **each} for each in body["records"])
        return httpx.Response(200, json={"quarantined": [1], "known": 0, "refused": []})

    def view(number: int) -> dict[str, Any]:
        version = {"id": number, "workload": SHASH, "tvm_version": tvm.__version__}
        return {**brought[number], **version, "policy": {"imported_by": "me"}}

    farm.routes["POST /v1/records:import"] = quarantine
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
