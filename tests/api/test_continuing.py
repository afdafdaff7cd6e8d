"""A job that has ended is tuned on: a job of its own, on the searches that the first one left."""

import pytest

from tests.api.conftest import problem
from tests.api.rows import set_job

MORE = {"max_trials": 32}


@pytest.fixture
def ended(api, engine) -> dict:
    job = api.submit(name="nightly", priority=3, max_trials=64).json()
    set_job(engine, job["id"], state="succeeded")
    return job


def test_a_job_that_ended_goes_on_in_a_new_one_on_the_same_searches(api, ended):
    made = api("POST", f"/v1/jobs/{ended['id']}:continue", json=MORE)
    assert made.status_code == 201, made.text
    job = made.json()
    assert made.headers["location"] == f"/v1/jobs/{job['id']}"
    assert job["id"] != ended["id"]
    assert (job["name"], job["state"], job["max_trials"], job["priority"]) == ("nightly", "queued", 32, 3)
    same = ("name", "workload", "search_id", "weight")
    assert [{name: task[name] for name in same} for task in job["tasks"]] == [
        {name: task[name] for name in same} for task in ended["tasks"]
    ]
    told = {warning["code"]: warning["detail"] for warning in job["warnings"]}
    assert ended["id"] in told["continues"]
    assert "no_worker" in told
    assert api("GET", f"/v1/jobs/{ended['id']}").json()["state"] == "succeeded"


def test_a_retry_under_the_same_key_makes_no_second_job_and_a_third_names_the_second(api, engine, ended):
    path, headers = f"/v1/jobs/{ended['id']}:continue", {"Idempotency-Key": "k1"}
    first, again = (api("POST", path, json=MORE, headers=headers).json()["id"] for _ in range(2))
    assert first == again
    other = api("POST", path, json={"max_trials": 33}, headers=headers)
    assert problem(other, 422)["code"] == "idempotency_key_reused"
    set_job(engine, first, state="cancelled")
    third = api("POST", f"/v1/jobs/{first}:continue", json=MORE).json()
    (said,) = [warning["detail"] for warning in third["warnings"] if warning["code"] == "continues"]
    assert first in said


def test_a_job_that_lives_is_changed_instead(api):
    job_id = api.submit().json()["id"]
    refused = problem(api("POST", f"/v1/jobs/{job_id}:continue", json=MORE), 409)
    assert refused["code"] == "job_not_ended"
    assert "max_trials" in refused["detail"]


def test_a_change_of_a_job_that_ended_names_the_way_on(api, ended):
    refused = problem(api("PATCH", f"/v1/jobs/{ended['id']}", json={"max_trials": 128}), 409)
    assert refused["code"] == "job_ended"
    assert f"/v1/jobs/{ended['id']}:continue" in refused["detail"]


def test_nobody_goes_on_with_anothers_job_nor_with_none_nor_without_a_sound_budget(api, ended):
    for max_trials in (0, 1_000_001, "9", None):
        answer = api("POST", f"/v1/jobs/{ended['id']}:continue", json={"max_trials": max_trials})
        assert answer.status_code == 422, max_trials
    refused = api("POST", f"/v1/jobs/{ended['id']}:continue", json=MORE, as_="bob")
    assert problem(refused, 403)["code"] == "not_the_owner"
    missing = api("POST", "/v1/jobs/job-aaaaaaaaaaaaaaaa:continue", json=MORE)
    assert problem(missing, 404)["code"] == "job_not_found"


def test_a_key_is_of_one_job_even_where_the_budgets_are_equal(api, engine, ended):
    other = api.submit(name="other", options={"isolation_key": "other"}).json()["id"]
    set_job(engine, other, state="failed")
    headers = {"Idempotency-Key": "k2"}
    assert api("POST", f"/v1/jobs/{ended['id']}:continue", json=MORE, headers=headers).status_code == 201
    refused = api("POST", f"/v1/jobs/{other}:continue", json=MORE, headers=headers)
    assert problem(refused, 422)["code"] == "idempotency_key_reused"
