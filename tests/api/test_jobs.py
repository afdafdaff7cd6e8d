"""Submitting, and what becomes of intents: from HTTP to rows."""

import gzip
import json
import threading

import pytest
from sqlalchemy import func, select, update

from db.session import reading, transaction
from db.tables import JobRow, SearchRow, TaskRow, WorkloadRow
from tests.api.conftest import TARGET, problem
from tests.api.rows import set_job
from tests.checks import modules


def count(engine, row) -> int:
    with reading(engine) as session:
        return session.scalars(select(func.count()).select_from(row)).one()


def test_a_submission_answers_with_the_job_its_tasks_and_where_it_is(api, engine):
    response = api.submit(name="first", priority=3)
    assert response.status_code == 201, response.text
    job = response.json()
    assert response.headers["location"] == f"/v1/jobs/{job['id']}"
    assert (job["name"], job["owner"], job["state"], job["priority"]) == ("first", "alice", "queued", 3)
    assert job["target"]["canonical"] == TARGET
    (task,) = job["tasks"]
    assert task["name"] == "main"
    assert task["flops"] == pytest.approx(2 * 128**3 + 128**2, rel=0.01)
    assert [arg["shape"] for arg in task["args"]] == [[128, 128]] * 3
    assert task["already_tuned"] is False
    assert job["estimated_secs"] > 0
    assert [warning["code"] for warning in job["warnings"]] == ["no_worker"]
    assert job["trials"]["submitted"] == 0
    assert api("GET", f"/v1/jobs/{job['id']}").json()["id"] == job["id"]


def test_a_module_may_be_a_string_and_a_target_a_profile(api, profile):
    response = api.submit(module="matmul", target=profile)
    as_string = api(
        "POST", "/v1/jobs", json={"module": modules.saved("matmul"), "target": profile, "max_trials": 64}
    )
    assert response.status_code == as_string.status_code == 201
    one, other = response.json(), as_string.json()
    assert one["target"]["name"] == "local"
    assert one["tasks"][0]["search_id"] == other["tasks"][0]["search_id"]


def test_a_design_space_by_name_is_part_of_the_search(api, engine):
    names = ("stock", "post-order-apply", "tilefarm")
    jobs = [api.submit(space=name).json() for name in names]
    searches = [job["tasks"][0]["search_id"] for job in jobs]
    assert searches[0] == searches[1] != searches[2]
    assert api.submit().json()["tasks"][0]["search_id"] == searches[2], "ours is the default"
    with reading(engine) as session:
        spaces = [session.get(SearchRow, search).space for search in searches]
    assert spaces == [None, None, {"rules": "tilefarm"}]


def test_a_target_may_be_a_tag(api):
    response = api.submit(target="nvidia/nvidia-a100")
    assert response.status_code == 201, response.text
    assert response.json()["target"]["canonical"]["arch"] == "sm_80"
    as_json = api.submit(target={"tag": "nvidia/nvidia-a100"})
    assert as_json.json()["target"] == response.json()["target"]


def test_functions_that_differ_only_in_names_are_one_workload_and_one_search(api, engine):
    module = modules.module("matmul")["main"]
    import tvm

    pair = tvm.IRModule({"one": module.with_attr("global_symbol", "one"), "two": module})
    body = {"module": json.loads(tvm.ir.save_json(pair)), "target": TARGET, "max_trials": 64}
    response = api("POST", "/v1/jobs", json=body)
    assert response.status_code == 201, response.text
    tasks = response.json()["tasks"]
    assert [task["name"] for task in tasks] == ["one", "two"]
    assert len({task["workload"] for task in tasks}) == 1
    assert (count(engine, WorkloadRow), count(engine, SearchRow), count(engine, TaskRow)) == (1, 1, 2)


def test_a_second_job_shares_the_search_unless_isolated(api):
    search = api.submit().json()["tasks"][0]["search_id"]
    assert api.submit(as_="bob").json()["tasks"][0]["search_id"] == search
    assert api.submit(seed=7).json()["tasks"][0]["search_id"] != search
    assert api.submit(options={"isolation_key": "bench-1"}).json()["tasks"][0]["search_id"] != search
    assert api.submit(options={"min_repeat": 5}).json()["tasks"][0]["search_id"] != search
    assert api.submit(strategy="random").json()["tasks"][0]["search_id"] != search


def test_a_submitted_design_space_is_kept_in_canonical_form(api, engine):
    from tvm.s_tir import Schedule

    from tests.checks.test_trace import plain

    schedule = Schedule(modules.module("matmul"))
    block = schedule.get_sblock("C")
    loop = schedule.get_loops(block)[1]
    schedule.split(loop, factors=schedule.sample_perfect_tile(loop, n=2, max_innermost_factor=16))
    space = {
        "traces": [plain(schedule.trace.as_json())],
        "postprocs": [],
        "mutators": {"MutateTileSize": 1.0},
    }
    response = api.submit(module="matmul", spaces={"main": space})
    assert response.status_code == 201, response.text
    with reading(engine) as session:
        stored = session.scalars(select(SearchRow)).one()
        assert stored.space["postprocs"] == []
        assert stored.space["traces"][0][0][0][0] == "GetSBlock"
    default = api.submit(module="matmul").json()
    assert default["tasks"][0]["search_id"] != response.json()["tasks"][0]["search_id"]


def test_a_function_without_noalias_is_warned_of(api):
    module = modules.module("matmul")
    import tvm

    bare = tvm.IRModule({"main": module["main"].without_attr("tirx.noalias")})
    body = {"module": json.loads(tvm.ir.save_json(bare)), "target": TARGET}
    job = api("POST", "/v1/jobs", json=body).json()
    assert {(w["code"], w["function"]) for w in job["warnings"]} >= {("no_noalias", "main")}


def test_a_gzip_body_is_read(api):
    body = gzip.compress(json.dumps({"module": modules.graph("matmul"), "target": TARGET}).encode())
    headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
    assert api("POST", "/v1/jobs", content=body, headers=headers).status_code == 201


def test_a_retry_under_the_same_key_makes_no_second_job(api, engine):
    first = api.submit(headers={"Idempotency-Key": "k1"})
    again = api.submit(headers={"Idempotency-Key": "k1"})
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json()["id"] == again.json()["id"]
    assert count(engine, JobRow) == 1
    other_body = api.submit(headers={"Idempotency-Key": "k1"}, priority=1)
    assert problem(other_body, 422)["code"] == "idempotency_key_reused"
    other_token = api.submit(headers={"Idempotency-Key": "k1"}, as_="bob")
    assert other_token.json()["id"] != first.json()["id"]


def test_retries_at_once_make_one_job(api, engine):
    answers: list[str] = []

    def submit() -> None:
        answers.append(api.submit(headers={"Idempotency-Key": "same"}).json()["id"])

    threads = [threading.Thread(target=submit) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 4
    assert len(set(answers)) == 1
    assert count(engine, JobRow) == count(engine, SearchRow) == 1


def test_intents_are_written_and_raise_the_revision(api, engine):
    job = api.submit().json()
    path = f"/v1/jobs/{job['id']}"
    paused = api("POST", f"{path}:pause").json()
    assert (paused["state"], paused["desired_state"]) == ("queued", "paused")
    assert paused["revision"] == job["revision"] + 1
    assert api("POST", f"{path}:pause").json()["revision"] == paused["revision"]
    assert api("POST", f"{path}:resume").json()["desired_state"] == "running"
    changed = api("PATCH", path, json={"max_trials": 128, "priority": -5, "name": "second"}).json()
    assert (changed["max_trials"], changed["priority"], changed["name"]) == (128, -5, "second")
    assert api("POST", f"{path}:cancel").json()["desired_state"] == "cancelled"
    assert api("POST", f"{path}:cancel").status_code == 200
    assert problem(api("POST", f"{path}:resume"), 409)["code"] == "job_cancelled"


def test_a_cancel_that_is_sent_again_after_the_end_is_no_error(api, engine):
    job_id = api.submit().json()["id"]
    set_job(engine, job_id, state="cancelled", desired_state="cancelled")
    again = api("POST", f"/v1/jobs/{job_id}:cancel")
    assert (again.status_code, again.json()["state"]) == (200, "cancelled")
    assert problem(api("POST", f"/v1/jobs/{job_id}:resume"), 409)["code"] == "job_ended"


@pytest.mark.parametrize("verb", ["cancel", "pause", "resume"])
def test_a_job_that_ended_takes_no_intent(api, engine, verb):
    job_id = api.submit().json()["id"]
    with transaction(engine) as session:
        session.execute(update(JobRow).values(state="succeeded"))
    assert problem(api("POST", f"/v1/jobs/{job_id}:{verb}"), 409)["code"] == "job_ended"
    assert problem(api("PATCH", f"/v1/jobs/{job_id}", json={"priority": 1}), 409)["code"] == "job_ended"


def test_a_budget_never_falls_below_what_is_spent(api, engine):
    job_id = api.submit().json()["id"]
    with transaction(engine) as session:
        session.execute(update(JobRow).values(trials_reserved=40))
    assert problem(api("PATCH", f"/v1/jobs/{job_id}", json={"max_trials": 39}), 409)["code"] == "budget_spent"
    assert api("PATCH", f"/v1/jobs/{job_id}", json={"max_trials": 40}).json()["max_trials"] == 40


def test_a_budget_is_not_raised_above_what_this_service_allows(api, app):
    job_id = api.submit(max_trials=64).json()["id"]
    app.state.settings = app.state.settings.model_copy(update={"max_trials": 100})
    refused = problem(api("PATCH", f"/v1/jobs/{job_id}", json={"max_trials": 101}), 422)
    assert (refused["code"], "100" in refused["detail"]) == ("budget_out_of_range", True)
    assert api("PATCH", f"/v1/jobs/{job_id}", json={"max_trials": 100}).json()["max_trials"] == 100


def test_another_tokens_job_is_seen_and_not_touched(api):
    job_id = api.submit().json()["id"]
    assert api("GET", f"/v1/jobs/{job_id}", as_="bob").status_code == 200
    for method, path in (("POST", f"/v1/jobs/{job_id}:cancel"), ("PATCH", f"/v1/jobs/{job_id}")):
        body = {"json": {"priority": 1}} if method == "PATCH" else {}
        assert problem(api(method, path, as_="bob", **body), 403)["code"] == "not_the_owner"
        assert api(method, path, as_="root", **body).status_code == 200


def test_the_list_is_paged_and_filtered_newest_first(api):
    ids = [api.submit(as_=owner).json()["id"] for owner in ("alice", "alice", "bob", "alice", "bob")]
    page = api("GET", "/v1/jobs?page_size=2").json()
    seen = [job["id"] for job in page["jobs"]]
    while page["next_page_token"]:
        page = api("GET", f"/v1/jobs?page_size=2&page_token={page['next_page_token']}").json()
        seen += [job["id"] for job in page["jobs"]]
    assert sorted(seen) == sorted(ids)
    assert len(seen) == len(set(seen))
    bobs = api("GET", "/v1/jobs?owner=bob").json()["jobs"]
    assert {job["owner"] for job in bobs} == {"bob"}
    assert api("GET", "/v1/jobs?state=running&state=failed").json()["jobs"] == []
    assert len(api("GET", "/v1/jobs?state=queued").json()["jobs"]) == 5
