"""mode="read-write": a local tuning run has a database that works, and what it found reaches the service."""

import json
from typing import Any

import httpx
import pytest
import tvm
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from tests.client.conftest import TARGET, FakeService, MMRelu, database, problem, record, space
from tests.client.test_database import SHASH, compiled, is_tuned
from tilefarm import module

CANONICAL = module.workload_of(MMRelu).module


def tuned(db: Any, secs: float, target: Any = TARGET) -> Any:
    """Commits what a search would."""
    workload = db.commit_workload(CANONICAL)
    schedule = tvm.s_tir.Schedule(CANONICAL)
    space(schedule)
    args = ms.arg_info.ArgInfo.from_prim_func(CANONICAL["main"])
    found = ms.database.TuningRecord(schedule.trace, workload, [secs], Target(target), args)
    db.commit_tuning_record(found)
    return workload


@pytest.fixture
def farm(service: FakeService) -> FakeService:
    service.records.clear()
    service.routes["POST /v1/records:import"] = lambda _: httpx.Response(200, json={"quarantined": [1]})
    return service


def sent(farm: FakeService) -> list[Any]:
    return [json.loads(one.content) for one in farm.requests if one.url.path == "/v1/records:import"]


def test_what_is_committed_is_used_here_and_sent_to_the_service(farm: FakeService) -> None:
    db = database(farm, mode="read-write", on_miss="silent")
    workload = tuned(db, 2e-5)
    tuned(db, 1e-5)
    assert [float(one.run_secs[0]) for one in db.get_top_k(workload, 1)] == [1e-5]
    assert db.has_workload(CANONICAL)
    assert len(db) == len(db.get_all_tuning_records()) == 2
    assert is_tuned(compiled(db, CANONICAL).mod)
    db.close()
    records = [one for body in sent(farm) for one in body["records"]]
    assert [one["run_secs"] for one in records] == [[2e-5], [1e-5]]
    assert records[0]["trace"] == record()["trace"]
    assert sent(farm)[0]["target"] == TARGET
    assert module.workload_of(module.from_json(sent(farm)[0]["module"])).shash == SHASH


def test_a_committed_record_of_another_target_is_not_used(farm: FakeService) -> None:
    db = database(farm, mode="read-write", on_miss="silent")
    tuned(db, 1e-5, {**TARGET, "num-cores": 4})
    assert compiled(db, CANONICAL) is None
    db.close()


def test_a_failed_measurement_is_not_sent(farm: FakeService) -> None:
    db = database(farm, mode="read-write")
    tuned(db, 1e10)
    db.close()
    assert sent(farm) == []


def test_a_refusal_is_a_line_in_the_log(farm: FakeService, caplog: pytest.LogCaptureFixture) -> None:
    farm.routes["POST /v1/records:import"] = lambda _: problem(403, "missing_scope", "records:import")
    db = database(farm, mode="read-write")
    tuned(db, 1e-5)
    db.close()
    assert "1 records of" in caplog.text
    assert "records:import" in caplog.text
