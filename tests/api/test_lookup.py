"""The compile-time question: exactly the asked target and TVM, or a miss that says what there is instead."""

import pytest

from tests.api.conftest import TARGET, problem
from tests.api.rows import publish

TVM = "0.27.0.post1"
UNKNOWN = "0123456789abcdef"


def look_up(api, workloads, *, target=TARGET, tvm_version=TVM, as_="consumer"):
    body = {"target": target, "tvm_version": tvm_version, "workloads": workloads}
    return api("POST", "/v1/lookup", as_=as_, json=body)


@pytest.fixture
def job(api) -> dict:
    return api.submit().json()


def test_the_newest_published_record_is_found(api, engine, job):
    shash = job["tasks"][0]["workload"]
    publish(engine, job["id"], latency_secs=2e-4)
    newest = publish(engine, job["id"], latency_secs=3e-4)
    publish(engine, job["id"], latency_secs=1e-9, state="quarantined")
    answer = look_up(api, [shash, UNKNOWN]).json()
    (found,) = answer["records"][shash]
    assert (found["record_id"], found["latency_secs"], found["tvm_version"]) == (newest, 3e-4, TVM)
    assert found["trace"] == [[], []]
    assert '"tirx.PrimFunc"' in found["module"]
    assert [miss["shash"] for miss in answer["missing"]] == [UNKNOWN]
    assert answer["missing"][0]["nearest"] is None
    assert "tilefarm submit" in answer["missing"][0]["hint"]
    assert answer["target"] == TARGET


@pytest.mark.parametrize(
    "change",
    [{"num-cores": 4}, {"mcpu": "x86-64-v4"}, {"mattr": ["+avx512f"]}, {"mtriple": "aarch64-linux-gnu"}],
)
def test_another_target_is_a_miss_that_names_the_nearest(api, engine, job, change):
    shash = job["tasks"][0]["workload"]
    publish(engine, job["id"])
    answer = look_up(api, [shash], target={**TARGET, **change}).json()
    assert answer["records"] == {}
    assert '"x86-64-v3"' in answer["missing"][0]["nearest"]


def test_another_tvm_is_a_miss_that_names_the_nearest(api, engine, job):
    shash = job["tasks"][0]["workload"]
    publish(engine, job["id"])
    answer = look_up(api, [shash], tvm_version="0.28.0").json()
    assert answer["records"] == {}
    assert answer["missing"][0]["nearest"] == f"TVM {TVM}, same target"


def test_a_profile_names_its_exact_target(api, engine, job, profile):
    publish(engine, job["id"])
    assert look_up(api, [job["tasks"][0]["workload"]], target=profile).json()["records"]
    listed = api("GET", "/v1/targets", as_="consumer").json()["targets"]
    assert [(entry["name"], entry["target"], entry["workers_alive"]) for entry in listed] == [
        ("local", TARGET, 0)
    ]
    assert api("GET", "/v1/targets/local", as_="consumer").json() == listed[0]


def test_a_whole_model_is_one_question_and_bounded(api):
    assert len(look_up(api, [f"{n:016x}" for n in range(1000)]).json()["missing"]) == 1000
    assert problem(look_up(api, [f"{n:016x}" for n in range(1001)]), 422)["code"] == "too_many_workloads"
    for bad in (["xyz"], ["0123456789ABCDEF"], [1]):
        assert problem(look_up(api, bad), 422)
    assert problem(look_up(api, [], target="nope"), 422)["code"] == "unknown_target"
    assert look_up(api, []).json()["missing"] == []


def test_records_are_listed_filtered_and_shown(api, engine, job):
    ids = [publish(engine, job["id"], latency_secs=1e-4 * n) for n in (3, 2, 1)]
    page = api("GET", "/v1/records?page_size=2", as_="consumer").json()
    rest = api("GET", f"/v1/records?page_size=2&page_token={page['next_page_token']}", as_="consumer").json()
    assert [record["id"] for record in page["records"] + rest["records"]] == ids[::-1]
    key = page["records"][0]["target_key"]
    assert len(api("GET", f"/v1/records?target_key={key}").json()["records"]) == 3
    assert api("GET", f"/v1/records?target_key={'0' * 64}").json()["records"] == []
    assert api("GET", f"/v1/records?workload={UNKNOWN}").json()["records"] == []
    assert api("GET", "/v1/records?state=revoked").json()["records"] == []
    shown = api("GET", f"/v1/records/{ids[0]}").json()
    assert (shown["trace"], shown["latency_secs"]) == ([[], []], pytest.approx(3e-4))
    assert shown["gflops"] == pytest.approx(job["tasks"][0]["flops"] / 3e-4 / 1e9)
