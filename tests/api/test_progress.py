"""What watchers see: counts, latencies, trials, records as Python, event streams."""

import json
import threading

import httpx
import pytest

from tests.api.conftest import problem
from tests.api.rows import add_trials, publish, set_job, set_search


def test_counts_are_those_of_the_rows_and_add_up(api, engine):
    job_id = api.submit().json()["id"]
    add_trials(engine, job_id, outcome="ok", count=3, latency_secs=2e-4)
    add_trials(engine, job_id, outcome="build_error", count=2)
    add_trials(engine, job_id, state="queued", count=4)
    add_trials(engine, job_id, state="dispatched", count=1)
    add_trials(engine, job_id, outcome="ok", purpose="baseline", latency_secs=1e-3)
    job = api("GET", f"/v1/jobs/{job_id}").json()
    assert job["trials"] == {
        "submitted": 10, "queued": 4, "dispatched": 1, "done": 5, "failed": 0, "cancelled": 0,
        "other": 0,
    }  # fmt: skip
    assert job["outcomes"] == {"build_error": 2, "ok": 3}
    assert job["tasks"][0]["trials"] == job["trials"]
    listed = api("GET", "/v1/jobs").json()["jobs"][0]
    assert (listed["trials"], listed["outcomes"]) == (job["trials"], job["outcomes"])


def test_latencies_give_speedup_and_rate(api, engine):
    job_id = api.submit(weights={"main": 3}).json()["id"]
    set_search(engine, untuned_latency_secs=4e-3, best_latency_secs=1e-3, stage_secs={"build": 1.5})
    job = api("GET", f"/v1/jobs/{job_id}").json()
    (task,) = job["tasks"]
    assert (task["speedup"], task["best_latency_secs"]) == (4.0, 1e-3)
    assert task["gflops"] == pytest.approx(task["flops"] / 1e-3 / 1e9)
    assert job["weighted_latency_secs"] == pytest.approx(3e-3)
    assert job["untuned_weighted_latency_secs"] == pytest.approx(12e-3)
    assert (job["speedup"], job["stage_secs"]) == (4.0, {"build": 1.5})


def test_where_no_candidate_beats_the_untuned_module_that_one_is_the_best(api, engine):
    job_id = api.submit().json()["id"]
    set_search(engine, untuned_latency_secs=8e-9, best_latency_secs=1.2e-6)
    job = api("GET", f"/v1/jobs/{job_id}").json()
    assert (job["tasks"][0]["best_latency_secs"], job["tasks"][0]["speedup"], job["speedup"]) == (8e-9, 1, 1)


def test_time_left_is_at_the_jobs_own_pace(api, engine):
    job_id = api.submit(max_trials=20).json()["id"]
    assert api("GET", f"/v1/jobs/{job_id}").json()["eta_secs"] is None
    from sqlalchemy import update

    from db.clock import utc_now
    from db.session import transaction
    from db.tables import TaskRow

    add_trials(engine, job_id, outcome="ok", count=10, latency_secs=1e-3)
    with transaction(engine) as session:
        session.execute(update(TaskRow).values(trials_reserved=10))
    set_job(engine, job_id, state="running", started_at=utc_now(offset_secs=-50))
    assert api("GET", f"/v1/jobs/{job_id}").json()["eta_secs"] == pytest.approx(50, rel=0.1)


def test_a_task_whose_workload_has_a_record_is_already_tuned(api, engine):
    first = api.submit().json()
    record = publish(engine, first["id"], latency_secs=5e-5)
    second = api.submit().json()["tasks"][0]
    assert (second["already_tuned"], second["record_id"]) == (True, record)
    assert second["best_latency_secs"] == 5e-5
    assert api("GET", f"/v1/jobs/{first['id']}").json()["tasks"][0]["already_tuned"] is False


def test_the_record_of_a_task_reads_as_python(api, engine):
    job = api.submit().json()
    task = job["tasks"][0]
    path = f"/v1/tasks/{task['id']}/record"
    assert problem(api("GET", path), 404)["code"] == "no_record"
    trace = [[["GetSBlock", [], ["C", "main"], ["b0"]], ["GetLoops", ["b0"], [], ["l1", "l2", "l3"]],
              ["Parallel", ["l1"], [], []]], []]  # fmt: skip
    record = publish(engine, job["id"], trace=trace)
    answer = api("GET", path).json()
    assert (answer["record"]["id"], answer["trace"]) == (record, trace)
    assert "sch.parallel" in answer["trace_python"]
    assert "T.parallel" in answer["script"]
    assert "T.parallel" not in answer["untuned_script"]
    assert api("GET", f"/v1/tasks/{task['id']}").json()["record_id"] == record
    assert api("GET", f"/v1/jobs/{job['id']}/tasks").json()["tasks"][0]["id"] == task["id"]


def test_trials_are_listed_filtered_and_shown(api, engine):
    job_id = api.submit().json()["id"]
    ok = add_trials(engine, job_id, outcome="ok", count=3, latency_secs=2e-4, predicted_score=0.5)
    bad = add_trials(engine, job_id, outcome="run_error", error="SIGSEGV", worker_id="w1")
    page = api("GET", f"/v1/jobs/{job_id}/trials?page_size=3").json()
    rest = api("GET", f"/v1/jobs/{job_id}/trials?page_size=3&page_token={page['next_page_token']}").json()
    assert [trial["id"] for trial in page["trials"] + rest["trials"]] == sorted(ok + bad, reverse=True)
    assert rest["next_page_token"] is None
    failed = api("GET", f"/v1/jobs/{job_id}/trials?outcome=run_error").json()["trials"]
    assert [(trial["error"], trial["worker_id"]) for trial in failed] == [("SIGSEGV", "w1")]
    assert api("GET", f"/v1/jobs/{job_id}/trials?state=queued").json()["trials"] == []
    assert api("GET", f"/v1/jobs/{job_id}/trials?task=999999").json()["trials"] == []
    shown = api("GET", f"/v1/trials/{ok[0]}").json()
    assert (shown["run_secs"], shown["predicted_score"], shown["trace"]) == ([2e-4], 0.5, [[], []])


def events(response) -> list[tuple[str, int, dict]]:
    found, kind, number = [], "", 0
    for line in response.iter_lines():
        name, _, value = line.partition(": ")
        if name == "event":
            kind = value
        elif name == "id":
            number = int(value)
        elif name == "data":
            found.append((kind, number, json.loads(value)))
    return found


def test_events_are_snapshots_until_the_job_has_ended(api, engine):
    job_id = api.submit().json()["id"]
    seen: list[tuple[str, int, dict]] = []
    alive = threading.Event()
    headers = {"Authorization": f"Bearer {api.tokens['alice']}"}

    def follow() -> None:
        with (
            httpx.Client(base_url=str(api.client.base_url), timeout=30) as client,
            client.stream("GET", f"/v1/jobs/{job_id}/events", headers=headers) as response,
        ):
            assert response.headers["content-type"].startswith("text/event-stream")
            kind = ""
            for line in response.iter_lines():
                name, _, value = line.partition(": ")
                if line.startswith(": "):
                    alive.set()
                elif name == "event":
                    kind = value
                elif name == "data":
                    data = json.loads(value)
                    seen.append((kind, data["revision"], data))

    thread = threading.Thread(target=follow)
    thread.start()
    assert alive.wait(10)
    set_job(engine, job_id, state="running")
    while len(seen) < 2:
        assert thread.is_alive()
        threading.Event().wait(0.01)
    set_job(engine, job_id, state="succeeded")
    thread.join(10)
    assert not thread.is_alive()
    assert [(kind, data["state"]) for kind, _, data in seen] == [
        ("job", "queued"), ("job", "running"), ("job", "succeeded"), ("end", "succeeded")
    ]  # fmt: skip
    assert [number for _, number, _ in seen] == [1, 2, 3, 3]
    assert seen[0][2]["tasks"][0]["name"] == "main"


def test_a_stream_that_comes_back_gets_the_present_state(api, engine):
    job_id = api.submit().json()["id"]
    set_job(engine, job_id, state="running")
    set_job(engine, job_id, state="cancelled")
    headers = {"Authorization": f"Bearer {api.tokens['alice']}", "Last-Event-ID": "1"}
    with api.client.stream("GET", f"/v1/jobs/{job_id}/events", headers=headers) as response:
        seen = events(response)
    assert [(kind, number) for kind, number, _ in seen] == [("job", 3), ("end", 3)]
