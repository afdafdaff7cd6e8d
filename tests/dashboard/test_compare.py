"""Several jobs on one axis; tables as CSV."""

import csv
import io

from tests.api.rows import add_trials, set_search
from tests.dashboard.conftest import embedded


def rows(browser, path: str) -> list[dict[str, str]]:
    answer = browser.get(path)
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    return list(csv.DictReader(io.StringIO(answer.text)))


def test_jobs_are_compared_at_the_budget_that_all_have_spent(browse, farm, engine):
    first, second = farm.job("first"), farm.job("second")
    for number, latency_secs in enumerate((8e-3, 4e-3, 2e-3, 1e-3)):
        add_trials(engine, first, outcome="ok", latency_secs=latency_secs, attempt=number)
    for number, latency_secs in enumerate((9e-3, 5e-3)):
        add_trials(engine, second, outcome="ok", latency_secs=latency_secs, attempt=number)
    set_search(engine, untuned_latency_secs=2e-2)
    page = browse().page(f"/compare?job={first}&job={second}")
    found = embedded(page, "lines")
    assert found["budget"] == 2
    assert [line["numbers"] for line in found["lines"]] == [[1, 2, 3, 4], [1, 2]]
    assert [line["latencies_secs"] for line in found["lines"]] == [[8e-3, 4e-3, 2e-3, 1e-3], [9e-3, 5e-3]]
    assert '<td class="num strong">4.00 ms</td>' in page
    assert '<td class="num strong">5.00 ms</td>' in page


def test_comparing_nothing_says_how_and_a_job_that_is_not_there_is_told(browse):
    assert "Tick two or more jobs" in browse().page("/compare")
    assert browse().get("/compare?job=job-x").status_code == 404


def test_the_list_of_jobs_is_downloaded_whole_and_filtered(browse, farm):
    for number in range(30):
        farm.job(f"job {number}", state="running" if number % 2 else "succeeded")
    browser = browse()
    assert len(rows(browser, "/download/jobs.csv")) == 30
    found = rows(browser, "/download/jobs.csv?state=running&sort=name")
    assert [row["name"] for row in found][:2] == ["job 1", "job 11"]
    assert found[0]["max_trials"] == "64"


def test_trials_and_tasks_are_downloaded_with_failures_and_no_formula(browse, farm, engine):
    job_id = farm.job(tasks=("=1+1",))
    add_trials(engine, job_id, outcome="ok", latency_secs=0.25)
    add_trials(engine, job_id, outcome="run_error", error="@SUM(A1)")
    browser = browse()
    (task,) = rows(browser, f"/download/jobs/{job_id}/tasks.csv")
    assert (task["name"], task["done"]) == ("'=1+1", "2")
    trials = rows(browser, f"/download/tasks/{task['id']}/trials.csv")
    assert [(trial["outcome"], trial["latency_secs"], trial["error"]) for trial in trials] == [
        ("run_error", "", "'@SUM(A1)"),
        ("ok", "0.25", ""),
    ]
    assert browse(None).get(f"/download/tasks/{task['id']}/trials.csv").status_code == 401


def test_what_is_compared_is_downloaded_job_by_job_and_by_strategy(browse, farm, engine):
    first, second = farm.job("first"), farm.job("second")
    for number, latency_secs in enumerate((8e-3, 4e-3, 2e-3)):
        add_trials(engine, first, outcome="ok", latency_secs=latency_secs, attempt=number)
    add_trials(engine, second, outcome="ok", latency_secs=6e-3)
    set_search(engine, untuned_latency_secs=2e-2)
    browser, query = browse(), f"job={first}&job={second}"
    found = rows(browser, f"/download/compared.csv?{query}")
    assert [(row["name"], row["trials"], row["budget"], row["latency_at_budget_secs"]) for row in found] == [
        ("first", "3", "1", "0.008"),
        ("second", "1", "1", "0.006"),
    ]
    (point,) = rows(browser, f"/download/strategies.csv?{query}")
    assert (point["strategy"], point["jobs"], point["trial"]) == ("evolutionary", "2", "1")
    assert [float(point[name]) for name in ("median_secs", "least_secs", "most_secs")] == [7e-3, 6e-3, 8e-3]


def test_an_address_that_no_database_takes_is_refused(browse):
    assert browse().get("/compare?job=a%00b").status_code == 422
