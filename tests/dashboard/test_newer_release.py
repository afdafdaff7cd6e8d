"""A replica of the release before, amid a rolling upgrade: rows hold words that it has never heard."""

import re

import httpx
import pytest
from sqlalchemy import select, update

from db.farm_tables import WorkerRow
from db.session import reading, transaction
from db.tables import JobRow, SearchRow, TaskRow
from tests.api.rows import add_trials, publish, set_job
from tests.tuning.rows import add_worker

NEW = "of-a-newer-release"


@pytest.fixture
def newer(farm, engine) -> dict[str, object]:
    """A job of today's words beside one in which every closed set of every table has a new one."""
    known = farm.job("known", state="running")
    add_trials(engine, known, outcome="ok", latency_secs=1e-4)
    job = farm.job("newer", state="running")
    [trial] = add_trials(engine, job, outcome=NEW, error="as it says")
    add_trials(engine, job, outcome=None, state=NEW)
    add_trials(engine, job, outcome=NEW, purpose=NEW)
    record = publish(engine, job, state=NEW)
    with transaction(engine) as session:
        task = session.scalars(select(TaskRow).where(TaskRow.job_id == job)).one()
        target_id = session.get_one(JobRow, job).target_id
        session.execute(update(TaskRow).where(TaskRow.id == task.id).values(state=NEW))
        session.execute(update(SearchRow).where(SearchRow.id == task.search_id).values(state=NEW))
    set_job(engine, job, state=NEW, desired_state=NEW)
    add_worker(engine, target_id, worker_id="worker-new", name="new", role=NEW, state=NEW, desired_state=NEW)
    add_worker(engine, target_id, worker_id="worker-old", name="old")
    return {"job": job, "known": known, "task": task.id, "trial": trial, "record": record}


def test_what_only_a_newer_release_knows_is_shown_as_it_stands(newer, service, tokens, app):
    del app
    with httpx.Client(base_url=service[1], headers={"Authorization": f"Bearer {tokens['root']}"}) as client:

        def get(path: str):
            answer = client.get(path)
            assert answer.status_code == 200, (path, answer.text)
            return answer

        job = get(f"/v1/jobs/{newer['job']}").json()
        assert (job["state"], job["desired_state"], job["tasks"][0]["state"]) == (NEW, NEW, NEW)
        assert job["outcomes"] == {NEW: 1}
        assert (job["trials"]["submitted"], job["trials"]["done"], job["trials"]["other"]) == (2, 1, 1)
        assert {each["state"] for each in get("/v1/jobs").json()["jobs"]} == {"running", NEW}
        workers = {each["name"]: each for each in get("/v1/workers").json()["workers"]}
        assert (workers["new"]["role"], workers["new"]["state"]) == (NEW, NEW)
        assert get("/v1/workers/worker-new").json()["desired_state"] == NEW
        trials = get(f"/v1/jobs/{newer['job']}/trials").json()["trials"]
        assert {(each["purpose"], each["state"], each["outcome"]) for each in trials} == {
            ("search", "done", NEW), ("search", NEW, None), (NEW, "done", NEW),
        }  # fmt: skip
        assert get(f"/v1/trials/{newer['trial']}").json()["outcome"] == NEW
        assert get(f"/v1/tasks/{newer['task']}").json()["state"] == NEW
        assert get(f"/v1/jobs/{newer['job']}/tasks").json()["tasks"][0]["state"] == NEW
        assert NEW in {each["state"] for each in get("/v1/records").json()["records"]}
        assert get(f"/v1/records/{newer['record']}").json()["state"] == NEW


def test_metrics_count_it_under_its_own_word(newer, service, app):
    del newer, app
    answer = httpx.get(f"{service[1]}/metrics")
    assert answer.status_code == 200
    found = dict(re.findall(r"^(tilefarm_\w+\{[^}]*\}) (\S+)$", answer.text, re.MULTILINE))
    assert found[f'tilefarm_jobs{{state="{NEW}"}}'] == "1.0"
    assert found[f'tilefarm_workers_alive{{state="{NEW}"}}'] == "1.0"
    assert found['tilefarm_workers_alive{state="running"}'] == "1.0"
    assert found['tilefarm_workers{health="alive"}'] == "2.0"
    assert found[f'tilefarm_trials_total{{outcome="{NEW}"}}'] == "2.0"
    assert found['tilefarm_trials_total{outcome="ok"}'] == "1.0"
    assert found[f'tilefarm_records{{state="{NEW}"}}'] == "1.0"


def test_every_page_and_table_of_it_is_there(newer, browse):
    browser = browse("root")
    paths = [
        "/", "/fleet", "/records", "/failures", "/compare", "/jobs/{job}", "/tasks/{task}", "/trials/{trial}",
        "/failures?job={job}", "/compare?job={job}&job={known}",
        *(f"/download/{table}.json" for table in ("jobs", "workers", "activity", "queues", "records")),
        *("/download/failures.json", "/download/jobs/{job}/tasks.json", "/download/jobs/{job}/latency.json"),
        *("/download/tasks/{task}/trials.json", "/download/tasks/{task}/ranks.json"),
        *("/download/tasks/{task}/spread.json", "/tasks/{task}/curve"),
    ]  # fmt: skip
    refused = {}
    for path in paths:
        answer = browser.get(path.format(**newer))
        if answer.status_code != 200:
            refused[path] = answer.text[:300]
    assert refused == {}
    assert NEW in browser.page("/")
    assert NEW in browser.page("/fleet")


def test_a_drained_worker_of_a_newer_release_is_told_to_drain(newer, engine, app, service, tokens):
    """Its heartbeat is answered, whatever this release makes of its state."""
    del newer, app
    headers = {"Authorization": f"Bearer {tokens['root']}"}
    beat = {"holding": [], "stage_secs": {}}
    with httpx.Client(base_url=service[1], headers=headers) as client:
        first = client.post("/v1/workers/worker-new:heartbeat", json=beat)
        assert (first.status_code, first.json()["drain"]) == (200, False)
        assert client.post("/v1/workers/worker-new:drain").status_code == 200
        assert client.post("/v1/workers/worker-new:heartbeat", json=beat).json()["drain"] is True
    with reading(engine) as session:
        assert session.get_one(WorkerRow, "worker-new").state == "draining"
