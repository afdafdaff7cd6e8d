"""POST /v1/records:import: checked like a submission, quarantined, never returned by a lookup."""

import json

import pytest

from services.api import import_reading, intake
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


def workload(name="matmul_relu", **fields):
    record = {"trace": [[], []], "run_secs": [1e-4]}
    return {"target": TARGET, "module": modules.graph(name), "records": [record], **fields}


@pytest.fixture
def bring_many(api):
    def call(*workloads, **fields):
        body = {"tvm_version": TVM, "workloads": list(workloads), "source": "a laptop", **fields}
        return api("POST", "/v1/records:import-many", as_="importer", json=body)

    return call


def test_many_workloads_come_at_once_and_a_bad_one_keeps_no_other_out(api, bring, bring_many):
    alone = bring().json()
    other_target = {**TARGET, "num-cores": 4}
    reorder = [[["GetSBlock", [], ["C", "main"], ["b0"]]], []]
    answer = bring_many(
        workload(),
        workload(module={"nodes": []}),
        workload("softmax"),
        workload(target={"kind": "hexagon"}),
        workload("softmax", records=[{"trace": reorder, "run_secs": [1e-4]}]),
        workload("softmax", target=other_target),
        workload(records=[{"trace": reorder, "run_secs": [1e-4]}]),
    )
    assert answer.status_code == 200, answer.text
    found = answer.json()["workloads"]
    assert [each["taken"] is None for each in found] == [False, True, False, True, False, False, False]
    assert [found[at]["refused"]["code"] for at in (1, 3)] == ["not_an_ir_module", "unknown_target"]
    taken = [each["taken"] for each in found if each["taken"]]
    assert [(len(each["quarantined"]), each["known"]) for each in taken] == [
        (0, 1),
        (1, 0),
        (0, 0),
        (1, 0),
        (1, 0),
    ]
    assert taken[0]["workload"] == taken[4]["workload"] == alone["workload"]
    assert taken[1]["workload"] == taken[2]["workload"] == taken[3]["workload"]
    # What one block of softmax is called is no block of the other's: refused by itself.
    assert [each["code"] for each in taken[2]["refused"]] == ["bad_trace"]
    shown = api("GET", f"/v1/records/{taken[3]['quarantined'][0]}").json()
    assert shown["target"] == other_target
    problem(bring_many(), 422)


def test_equal_functions_that_are_spelled_differently_are_one_workload(api, bring_many):
    """Their blocks have other names, so the traces of each are tried on what is stored."""
    text = json.dumps(modules.graph("matmul_relu"))
    spelled = json.loads(text.replace('"C"', '"D"'))
    reads_c = [[["GetSBlock", [], ["C", "main"], ["b0"]]], []]
    found = bring_many(
        workload(records=[{"trace": reads_c, "run_secs": [1e-4]}]),
        workload(module=spelled, records=[{"trace": [[], []], "run_secs": [1e-4]}]),
    ).json()["workloads"]
    one, other = (each["taken"] for each in found)
    assert one["workload"] == other["workload"]
    assert [len(each["quarantined"]) for each in (one, other)] == [1, 1]
    views = [api("GET", f"/v1/records/{each['quarantined'][0]}").json() for each in (one, other)]
    assert views[0]["module"] == views[1]["module"]


def test_a_child_that_dies_costs_one_workload(api, bring_many, monkeypatch):
    monkeypatch.setattr(intake, "ENTRY", "tests.api.poison:over_softmax")
    found = bring_many(workload(), workload("softmax"), workload("matmul_int64_index")).json()["workloads"]
    assert [each["taken"] is None for each in found] == [False, True, False]
    assert found[1]["refused"]["code"] == "module_crashes_loader"


def test_a_child_reads_a_bounded_number_of_records(bring_many, monkeypatch):
    opened = []
    spawned = intake.Intake.open
    monkeypatch.setattr(intake.Intake, "open", lambda self: (opened.append(1), spawned(self))[1])
    monkeypatch.setattr(import_reading, "_RECORDS_OF_A_CHILD", 3)
    assert bring_many(workload(), workload("softmax"), workload("matmul_int64_index")).is_success
    assert len(opened) > 1


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
