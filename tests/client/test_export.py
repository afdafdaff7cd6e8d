"""`tilefarm export` and `tilefarm coverage`: stock loads what is exported; coverage says what is tuned."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
import tvm
import tvm_ffi
from tvm.s_tir.meta_schedule.database import JSONDatabase
from tvm.target import Target

from tests.client.conftest import TARGET, FakeService, MMRelu, database, record
from tests.client.test_cli import PYTHON, module_file, run
from tests.client.test_database import SHASH, compiled
from tilefarm import module
from tilefarm import target as targets
from tilefarm.space import trace_json

__all__ = ["module_file"]
WORDS = ("--target", json.dumps(TARGET))


@pytest.fixture
def farm(service: FakeService) -> FakeService:
    """It lists its records in pages of one, with an older one of MMRelu and one of another TVM."""
    views = [
        {"id": 3, "workload": SHASH, "tvm_version": tvm.__version__},
        {"id": 2, "workload": "0" * 16, "tvm_version": "0.1"},
        {"id": 1, "workload": SHASH, "tvm_version": tvm.__version__},
    ]

    def page(request: httpx.Request) -> httpx.Response:
        assert request.url.params["state"] == "published"
        at = int(request.url.params.get("page_token", 0))
        token = str(at + 1) if at + 1 < len(views) else None
        return httpx.Response(200, json={"records": [views[at]], "next_page_token": token})

    service.routes["GET /v1/records"] = page
    return service


def test_stock_loads_what_is_exported_and_answers_as_we_do(farm: FakeService, tmp_path: Path) -> None:
    directory = tmp_path / "out" / "db"
    assert run(farm, "export", str(directory), *WORDS) == 0
    stock = JSONDatabase(work_dir=str(directory))
    assert len(stock) == 1
    asked = module.workload_of(MMRelu).module
    theirs = stock.query_tuning_record(asked, Target(TARGET), "main")
    ours = database(farm).query_tuning_record(asked, Target(TARGET), "main")
    assert str(theirs.trace) == str(ours.trace)
    assert [float(secs) for secs in theirs.run_secs] == [float(secs) for secs in ours.run_secs]
    assert [str(arg) for arg in theirs.args_info] == [str(arg) for arg in ours.args_info]
    assert str(theirs.target) == str(ours.target)
    assert tvm_ffi.structural_equal(compiled(stock, asked).mod, compiled(database(farm), asked).mod)
    (line,) = (directory / "database_provenance.json").read_text().splitlines()
    told = json.loads(line)
    assert (told["record_id"], told["workload"], told["target"]) == ("1", SHASH, TARGET)
    assert sorted(path.name for path in directory.iterdir()) == [
        "database_provenance.json",
        "database_tuning_record.json",
        "database_workload.json",
    ]


def test_a_record_that_lays_out_a_buffer_anew_is_exported_too(farm: FakeService, tmp_path: Path) -> None:
    """Stock's own as_json fails on its index map."""
    canonical = module.workload_of(MMRelu).module
    schedule = tvm.s_tir.Schedule(canonical)
    schedule.transform_layout(schedule.get_sblock("Y"), ("write", 0), lambda i, j: (j // 16, i, j % 16))
    farm.records[SHASH] = record(trace=trace_json(schedule))
    assert run(farm, "export", str(tmp_path / "db"), *WORDS) == 0
    (found,) = JSONDatabase(work_dir=str(tmp_path / "db")).get_all_tuning_records()
    again = tvm.s_tir.Schedule(canonical)
    found.trace.apply_to_schedule(again, remove_postproc=False)
    assert tvm_ffi.structural_equal(again.mod, schedule.mod)


def test_files_that_are_there_are_never_touched(farm: FakeService, tmp_path: Path) -> None:
    (tmp_path / "database_tuning_record.json").write_text("mine")
    assert run(farm, "export", str(tmp_path), *WORDS) == 2
    assert (tmp_path / "database_tuning_record.json").read_text() == "mine"
    assert [path.name for path in tmp_path.glob("*.json")] == ["database_tuning_record.json"]


def test_a_record_that_does_not_apply_is_left_out_and_told(
    farm: FakeService, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    farm.records[SHASH] = record(trace=[[["GetSBlock", [], ["nothing", "main"], ["b0"]]], []])
    assert run(farm, "export", str(tmp_path / "db"), *WORDS, "-o", "json") == 1
    printed = capsys.readouterr()
    assert json.loads(printed.out)["skipped"] == 1
    assert "record 1 is left out" in printed.err
    assert len(JSONDatabase(work_dir=str(tmp_path / "db"))) == 0


def test_an_export_that_breaks_off_leaves_nothing(farm: FakeService, tmp_path: Path) -> None:
    farm.routes["POST /v1/lookup"] = lambda _: httpx.Response(200, content=b"<html>")
    assert run(farm, "export", str(tmp_path / "db"), *WORDS) == 6
    assert list((tmp_path / "db").iterdir()) == []


def test_coverage_tells_hits_and_misses_by_workload(
    farm: FakeService, module_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(farm, "coverage", str(module_file), *WORDS, "-o", "json") == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    (task,) = told["tasks"]
    assert told["percent"] == 100
    assert (task["result"], task["functions"], task["weight"]) == ("hit", ["mm_relu"], 1)
    assert task["latency_secs"] == pytest.approx(1.05e-5)
    assert task["age_secs"] > 86_400
    known = farm.records.pop(str(task["workload"]))
    other = {**TARGET, "num-cores": 4}
    near = known | {"rule": "num-cores", "target": other, "target_key": targets.key(other)}

    def look_up(request: httpx.Request) -> httpx.Response:
        answer = farm._lookup(json.loads(request.content))
        return httpx.Response(200, json=answer | {"near": {task["workload"]: near}})

    farm.routes["POST /v1/lookup"] = look_up
    assert run(farm, "coverage", str(module_file), *WORDS, "--near", "num-cores") == 0
    printed = capsys.readouterr().out
    assert "near (num-cores)" in printed
    assert printed.endswith("0 % of the functions are tuned\n")
    assert run(farm, "coverage", str(module_file), *WORDS, "--near", "anchor-block") == 0
    asked = farm.bodies()[-2]
    assert (asked["near"], list(asked["anchors"])) == (["anchor-block"], [SHASH])
    capsys.readouterr()
    del farm.routes["POST /v1/lookup"]
    source = tmp_path / "kernels.py"
    source.write_text(PYTHON + "\nagain = triple\n")
    assert run(farm, "coverage", str(source), *WORDS, "--min-percent", "50") == 5
    printed = capsys.readouterr().out
    assert "again, triple" in printed
    assert "the same on 4 cores" in printed
    assert printed.endswith("0 % of the functions are tuned\n")


def test_coverage_tells_what_tuning_would_be_expected_to_bring(
    farm: FakeService, module_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a miss against the untuned function, weighed; of a hit against its record; else nothing."""
    asked: list[dict[str, Any]] = []
    seconds = {"untuned_secs": 5e-3, "tuned_secs": 1e-3, "similar": 3}

    def expectations(request: httpx.Request) -> httpx.Response:
        asked.append(json.loads(request.content))
        return httpx.Response(200, json={"expectations": dict.fromkeys(asked[-1]["workloads"], seconds)})

    farm.routes["POST /v1/expectations"] = expectations
    source = tmp_path / "kernels.py"
    source.write_text(PYTHON + "\nagain = triple\n")
    assert run(farm, "coverage", str(source), *WORDS, "-o", "json") == 0
    gains = {tuple(task["functions"]): task["gain"] for task in json.loads(capsys.readouterr().out)["tasks"]}
    assert gains["Double",] == {"factor": 5.0, "secs": pytest.approx(4e-3), "similar": 3}
    assert gains["again", "triple"]["secs"] == pytest.approx(8e-3)
    assert list(asked[0]["workloads"].values()) == [{"flops": 16.0, "size_bytes": 128.0}] * 2
    assert run(farm, "coverage", str(source), *WORDS) == 0
    printed = capsys.readouterr().out
    assert "5.0x, 8 ms" in printed
    assert "expected of tuning what is not: 12 ms less a call" in printed

    seconds |= {"tuned_secs": 1.05e-5 / 2}
    assert run(farm, "coverage", str(module_file), *WORDS) == 0
    assert "2.0x, 5.25 µs" in capsys.readouterr().out
    seconds |= {"tuned_secs": 1.0}
    assert run(farm, "coverage", str(module_file), *WORDS) == 0
    assert "none" in capsys.readouterr().out
    del farm.routes["POST /v1/expectations"]
    assert run(farm, "coverage", str(module_file), *WORDS, "-o", "json") == 0
    assert json.loads(capsys.readouterr().out)["tasks"][0]["gain"] is None
    farm.routes["POST /v1/expectations"] = lambda _: httpx.Response(200, json={"expectations": {SHASH: {}}})
    assert run(farm, "coverage", str(module_file), *WORDS) != 0
