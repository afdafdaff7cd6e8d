"""POST /v1/records:import: checked like a submission, quarantined, never returned by a lookup."""

import pytest

from tests.api.conftest import TARGET, problem
from tests.checks import modules

TVM = "0.27.0.post1"


@pytest.fixture
def bring(api):
    def call(*, as_="importer", **fields):
        body = {
            "target": TARGET,
            "tvm_version": TVM,
            "module": modules.graph("matmul_relu"),
            "records": [{"trace": [[], []], "run_secs": [2e-4, 1e-4, 3e-4]}],
            "source": "a laptop",
            **fields,
        }
        return api("POST", "/v1/records:import", as_=as_, json=body)

    return call


def test_an_imported_record_is_quarantined_and_no_lookup_returns_it(api, bring):
    first = bring()
    assert first.status_code == 200, first.text
    answer = first.json()
    (record_id,) = answer["quarantined"]
    shown = api("GET", f"/v1/records/{record_id}").json()
    assert (shown["state"], shown["latency_secs"], shown["trial_id"]) == ("quarantined", 2e-4, None)
    assert shown["policy"] == {"imported_by": "importer", "source": "a laptop"}
    asked = {"target": TARGET, "tvm_version": TVM, "workloads": [answer["workload"]]}
    found = api("POST", "/v1/lookup", as_="consumer", json=asked).json()
    assert found["records"] == {}
    assert found["missing"][0]["nearest"] is None
    # A submission of the same module meets the same workload, and nothing counts as tuned.
    task = api.submit().json()["tasks"][0]
    assert (task["workload"], task["already_tuned"]) == (answer["workload"], False)
    again = bring().json()
    assert (again["quarantined"], again["known"]) == ([], 1)


def test_of_equal_traces_one_is_stored_and_ids_come_in_the_order_of_the_request(api, bring):
    block = ["GetSBlock", [], ["C", "main"], ["b0"]]
    loops = [block, ["GetLoops", ["b0"], [], ["l1", "l2", "l3"]]]
    traces = [[loops, []], [[], []], [loops, []], [[block], []]]
    records = [{"trace": trace, "run_secs": [1e-4 * (at + 1)]} for at, trace in enumerate(traces)]
    bring(records=records[1:2])
    answer = bring(records=records).json()
    assert answer["known"] == 2
    shown = [api("GET", f"/v1/records/{each}").json() for each in answer["quarantined"]]
    assert [(each["trace"], each["run_secs"]) for each in shown] == [
        (traces[0], [1e-4]),
        (traces[3], [4e-4]),
    ]


def test_a_record_that_does_not_fit_is_named_and_the_others_are_taken(bring):
    unfit = [[["GetSBlock", [], ["nowhere", "main"], ["b0"]]], []]
    hostile = [[["Annotate", [], ["pragma_import_llvm"], []]], []]
    records = [{"trace": trace, "run_secs": [1e-4]} for trace in (unfit, [[], []], hostile)]
    answer = bring(records=records).json()
    assert len(answer["quarantined"]) == 1
    assert [(refused["index"], refused["code"]) for refused in answer["refused"]] == [
        (0, "bad_trace"),
        (2, "bad_trace"),
    ]


def test_who_may_not_and_what_does_not_read_is_refused(bring):
    assert bring(as_="consumer").status_code == 403
    for fields, code in (
        ({"tvm_version": "0.1"}, "another_tvm"),
        ({"target": "nope"}, "unknown_target"),
        ({"module": {"nodes": []}}, None),
        ({"records": []}, None),
        ({"records": [{"trace": [[], []], "run_secs": [0]}]}, None),
        ({"records": [{"trace": [[], []], "run_secs": []}]}, None),
    ):
        told = problem(bring(**fields), 422)
        assert code is None or told["code"] == code


def test_imports_are_measured_again_by_a_job_of_whoever_asks(api, bring):
    reorder = [[["GetSBlock", [], ["C", "main"], ["b0"]]], []]
    records = [{"trace": trace, "run_secs": [secs]} for trace, secs in (([[], []], 2e-4), (reorder, 1e-4))]
    answer = bring(records=records).json()
    slow, fast = answer["quarantined"]
    asked = {"target": TARGET, "tvm_version": TVM, "top": 1}
    made = api("POST", "/v1/records:verify", as_="importer", json=asked)
    assert made.status_code == 201, made.text
    assert (made.json()["records"], made.json()["workloads"]) == ([fast], 1)
    job = api("GET", f"/v1/jobs/{made.json()['job_id']}").json()
    assert (job["owner"], job["strategy"], job["max_trials"]) == ("importer", "imported", 1)
    assert [task["workload"] for task in job["tasks"]] == [answer["workload"]]
    states = {
        record["id"]: record["verification"]["state"]
        for record in api("GET", "/v1/records", params={"state": "quarantined"}).json()["records"]
    }
    assert states == {slow: "waiting", fast: "measuring"}
    assert api("GET", f"/v1/records/{slow}").json()["verification"]["state"] == "waiting"
    # What is under way is not asked for twice.
    again = api(
        "POST", "/v1/records:verify", as_="importer", json=asked | {"workloads": [answer["workload"]]}
    )
    assert again.json()["records"] == [slow]
    none = problem(api("POST", "/v1/records:verify", as_="importer", json=asked), 404)
    assert none["code"] == "nothing_to_verify"
    assert api("POST", "/v1/records:verify", as_="consumer", json=asked).status_code == 403
