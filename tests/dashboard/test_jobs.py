"""The jobs page and a job's page: rows, filters, order, paging, escaping, actions."""

import re

import pytest
from sqlalchemy import select, update

from db.session import transaction
from db.tables import JobRow, SearchRow, TaskRow
from services.dashboard.views import downloads
from tests.api.rows import add_trials, set_search
from tests.dashboard.conftest import embedded

XSS = '<script>alert("x")</script><img src=x onerror=alert(1)>'


def names(page: str) -> list[str]:
    return re.findall(r'<th scope="row"><a [^>]*>([^<]*)</a>', page)


def test_the_first_run_teaches_with_the_right_address(browse):
    page = browse().page("/")
    assert f"{browse.url}/v1/jobs" in page
    assert "tilefarm.tune_tir" in page
    assert "Run the example" in page
    assert "Run the example" not in browse("alice", read_only=True).page("/")


def test_a_job_stands_in_the_list_with_its_numbers(browse, farm, engine):
    job_id = farm.job("resnet")
    add_trials(engine, job_id, outcome="ok", latency_secs=2e-4, count=3, predicted_score=0.5)
    add_trials(engine, job_id, outcome="build_error", error="no", count=2)
    set_search(engine, best_latency_secs=2e-4, untuned_latency_secs=1e-3)
    page = browse().page("/")
    assert names(page) == ["resnet"]
    assert "5.00×" in page
    assert "200 µs" in page
    assert "5 of 64 trials done: 3 measured, 2 failed, 0 running" in page


def test_a_task_that_stopped_early_says_so_once(browse, farm, engine):
    job_id = farm.job()
    with transaction(engine) as session:
        session.execute(update(TaskRow).values(state="succeeded", stopped="96 trials brought nothing"))
    browser = browse()
    assert browser.page(f"/jobs/{job_id}").count("stopped early") == 1
    assert browser.page("/tasks/1").count("96 trials brought nothing") == 1


def test_jobs_are_filtered_searched_and_sorted_by_the_address(browse, farm):
    farm.job("beta", state="running")
    farm.job("alpha", state="succeeded")
    farm.job("gamma_100%", owner="bob", state="running")
    browser = browse()
    assert names(browser.page("/?sort=name")) == ["alpha", "beta", "gamma_100%"]
    assert names(browser.page("/?sort=-name&state=running")) == ["gamma_100%", "beta"]
    assert names(browser.page("/?q=BOB")) == ["gamma_100%"]
    assert names(browser.page("/?q=100%25")) == ["gamma_100%"]
    assert "No job fits" in browser.page("/?q=nothing")
    assert browser.get("/?state=unheard-of").status_code == 422
    assert names(browser.page("/?sort=unheard")) == ["gamma_100%", "alpha", "beta"]


def test_a_job_that_comes_while_the_table_is_saved_has_no_other_told_twice(browse, farm, monkeypatch):
    expected = {farm.job(f"job {number}") for number in range(3)}
    page_of_jobs = downloads.page_of_jobs

    def growing(session, wanted, *, limit, offset):
        found = page_of_jobs(session, wanted, limit=limit, offset=offset)
        if offset == 0:
            farm.job("late")
        return found

    monkeypatch.setattr(downloads, "page_of_jobs", growing)
    monkeypatch.setattr(downloads, "BATCH", 2)
    told = [row["id"] for row in browse().get("/download/jobs.json").json()]
    assert (len(told), set(told)) == (3, expected)


def test_pages_hold_25_jobs_and_keep_the_filter(browse, farm):
    for number in range(30):
        farm.job(f"job {number:02}", state="running")
    browser = browse()
    first, second = (
        browser.page("/?sort=name&state=running"),
        browser.page("/?sort=name&state=running&page=2"),
    )
    assert names(first) + names(second) == [f"job {number:02}" for number in range(30)]
    assert "page 1 of 2" in first
    assert 'href="/?state=running&amp;sort=name&amp;page=2"' in first


def test_every_string_of_a_job_is_escaped(browse, farm):
    job_id = farm.job(
        XSS, tasks=(XSS,), error=XSS, state="failed",
        warnings=[{"code": "c", "function": XSS, "detail": XSS}], options={"isolation_key": XSS},
    )  # fmt: skip
    browser = browse()
    for path in ("/", f"/jobs/{job_id}", f"/?q={XSS}"):
        page = browser.page(path)
        assert "<script>alert" not in page
        assert "<img" not in page.replace('<img src="/static/icon', "")
        assert "&lt;script&gt;alert" in page


def test_the_task_table_has_the_columns_of_metaschedule(browse, farm, engine):
    job_id = farm.job(tasks=("dense", "relu"))
    set_search(engine, best_latency_secs=1e-3)
    page = browse().page(f"/jobs/{job_id}")
    columns = "ID|Name|FLOP|Weight|Speed (GFLOPS)|Latency (µs)|Weighted Latency (µs)|Trials|Done"
    for column in columns.split("|"):
        assert re.search(rf">{re.escape(column)}( ↓)?(</a>)?</th>", page), column
    assert names(page) == ["dense", "relu"]
    assert names(browse().page(f"/jobs/{job_id}?sort=-name")) == ["relu", "dense"]
    assert names(browse().page(f"/jobs/{job_id}?sort=-speedup")) == ["dense", "relu"], "unknown: as they are"
    assert "50 %" in page
    assert "1\u202f000" in page


def test_the_tasks_of_a_job_are_sorted_by_what_matters(browse, farm, engine):
    job_id = farm.job(tasks=("small", "unmeasured", "large"))
    with transaction(engine) as session:
        for name, best_secs in (("small", 1e-5), ("large", 3e-5)):
            search = select(TaskRow.search_id).where(TaskRow.name == name).scalar_subquery()
            session.execute(
                update(SearchRow).where(SearchRow.id == search).values(best_latency_secs=best_secs)
            )
    page = browse().page(f"/jobs/{job_id}?sort=-weighted")
    assert names(page) == ["large", "small", "unmeasured"]
    assert 'aria-sort="descending"' in page
    assert names(browse().page(f"/jobs/{job_id}?sort=weighted")) == ["small", "large", "unmeasured"]


def test_the_curve_of_a_job_is_its_weighted_latency_after_each_improvement(browse, farm, engine):
    job_id = farm.job(tasks=("dense",))
    for latency_secs in (5e-4, 7e-4, 2e-4):
        add_trials(engine, job_id, outcome="ok", latency_secs=latency_secs, attempt=int(latency_secs * 1e5))
    set_search(engine, best_latency_secs=2e-4, untuned_latency_secs=1e-3)
    curve = embedded(browse().page(f"/jobs/{job_id}"), "steps-data")
    assert curve["latencies_secs"] == [5e-4, 2e-4]
    assert curve["untuned_secs"] == 1e-3


def test_the_newest_error_of_a_task_leads_to_its_trial(browse, farm, engine):
    job_id = farm.job()
    add_trials(engine, job_id, outcome="build_error", error="first")
    (trial_id,) = add_trials(engine, job_id, outcome="run_error", error=XSS)
    page = browse().page(f"/jobs/{job_id}")
    assert f'href="/trials/{trial_id}"' in page
    assert "<script>alert" not in page


def test_controls_write_intents(browse, farm, engine):
    job_id = farm.job(state="running")
    browser = browse()
    for desired, next_control in (("paused", ">Resume<"), ("running", ">Pause<")):
        assert browser.post(f"/jobs/{job_id}/ask", {"desired": desired}).status_code == 200
        assert next_control in browser.page(f"/jobs/{job_id}")
    changed = browser.post(f"/jobs/{job_id}/change", {"max_trials": 500, "priority": 7})
    assert changed.status_code == 200
    assert browser.post(f"/jobs/{job_id}/ask", {"desired": "cancelled"}).status_code == 200
    with transaction(engine) as session:
        job = session.get_one(JobRow, job_id)
        assert (job.desired_state, job.max_trials, job.priority) == ("cancelled", 500, 7)
        assert session.scalars(select(TaskRow.state)).all() == ["queued"]
    assert browser.post(f"/jobs/{job_id}/ask", {"desired": "running"}).status_code == 409


def test_only_the_owner_and_an_administrator_control_a_job(browse, farm):
    job_id = farm.job(owner="alice", state="running")
    assert "Pause" not in browse("bob").page(f"/jobs/{job_id}")
    assert browse("bob").post(f"/jobs/{job_id}/ask", {"desired": "paused"}).status_code == 403
    assert browse("root").post(f"/jobs/{job_id}/ask", {"desired": "paused"}).status_code == 200


def test_a_job_that_is_not_there_is_a_page_that_says_so(browse):
    answer = browse().get("/jobs/job-nothere")
    assert answer.status_code == 404
    assert "There is no job job-nothere" in answer.text
    assert answer.headers["content-type"].startswith("text/html")


def test_the_events_of_a_job_come_by_the_session(browse, farm):
    job_id = farm.job(state="succeeded")
    answer = browse().get(f"/jobs/{job_id}/live")
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert "event: end" in answer.text
    assert browse(None).get(f"/jobs/{job_id}/live").status_code == 401


def test_a_job_that_ended_is_tuned_on_in_a_new_one(browse, farm):
    job_id = farm.job("nightly", state="succeeded")
    browser = browse()
    page = browser.page(f"/jobs/{job_id}")
    assert "Tune on" in page
    assert "Pause" not in page
    went = browser.post(f"/jobs/{job_id}/continue", {"max_trials": 8}).json()["goto"]
    again = browser.page(went)
    assert f'its searches go on from what <a href="/jobs/{job_id}">{job_id}</a> found' in again
    assert browse("bob").post(f"/jobs/{job_id}/continue", {"max_trials": 8}).status_code == 403


def test_a_job_of_which_one_task_is_measured_has_a_latency_and_no_chart_says_otherwise(browse, farm, engine):
    """The task that waits counts as it came: number, trend and curve agree."""
    job_id = farm.job("two", tasks=("first", "second"), state="running")
    set_search(engine, untuned_latency_secs=8e-3)
    add_trials(engine, job_id, outcome="ok", latency_secs=2e-3)
    with transaction(engine) as session:
        first = session.scalars(select(TaskRow.search_id).where(TaskRow.name == "first")).one()
        session.execute(update(SearchRow).where(SearchRow.id == first).values(best_latency_secs=2e-3))
    page = browse().page(f"/jobs/{job_id}")
    assert "10.0 ms" in page
    assert "1.60×" in page
    assert embedded(page, "steps-data")["latencies_secs"] == [pytest.approx(10e-3)]
