"""After the job of the other tests has ended: it is tuned on, without a mouse too; bad names do nothing."""

import pytest
from sqlalchemy import select, update

from db.farm_tables import WorkerRow
from db.session import connect, transaction
from db.states import JobState
from db.tables import JobRow, TaskRow, TrialRow
from tests.browser.conftest import XSS, Tabs
from tests.system.service import Service


@pytest.fixture(autouse=True, scope="module")
def ended(service: Service, job: str) -> None:
    if not JobState(service.job(job)["state"]).ended:
        service.post(f"/v1/jobs/{job}:cancel")
        service.wait_job(job)


def test_a_job_that_ended_is_tuned_on(tab: Tabs, service: Service, job: str):
    ended = service.job(job)
    page = tab(f"/jobs/{job}")
    page.get_by_label("More trials").fill("6")
    page.get_by_role("button", name="Tune on").click()
    page.wait_for_url(lambda url: "/jobs/job-" in url and job not in url)
    page.locator("#troubles").get_by_role("link", name=job).wait_for()
    made = service.wait_job(page.url.rpartition("/")[2])
    assert made["state"] == "succeeded"
    assert made["trials"]["submitted"] >= 6
    assert made["tasks"][0]["search_id"] == ended["tasks"][0]["search_id"]
    assert made["weighted_latency_secs"] <= ended["weighted_latency_secs"]
    page.get_by_text("ended", exact=True).wait_for()


def test_without_a_mouse_a_job_is_found_opened_and_tuned_on(tab: Tabs, service: Service, job: str):
    page = tab("/?q=onerror")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    tab_to(page, f"a[href='/jobs/{job}']")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/jobs/{job}")
    tab_to(page, "input[name=max_trials]")
    assert page.evaluate("document.activeElement.matches(':focus-visible')")
    page.keyboard.press("Control+a")
    page.keyboard.type("4")
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: "/jobs/job-" in url and job not in url)
    service.post(f"/v1/jobs/{page.url.rpartition('/')[2]}:cancel")


def tab_to(page, selector: str) -> None:
    for _ in range(80):
        page.keyboard.press("Tab")
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
    raise AssertionError(f"the Tab key does not reach {selector}")


def test_no_name_that_anybody_gives_runs_in_a_browser(tab: Tabs, service: Service, job: str):
    """Owner, target, task, worker, host, device class, facts, error, message: as rows that hold the worst."""
    with transaction(connect(f"sqlite:///{service.data_dir / 'tilefarm.db'}")) as session:
        session.execute(update(JobRow).where(JobRow.id == job).values(owner=XSS, target_name=XSS, error=XSS))
        session.execute(update(TaskRow).where(TaskRow.job_id == job).values(name=XSS, error=XSS))
        worst = {"name": XSS, "host": XSS, "device_class": XSS, "facts": {XSS: XSS, "selftest_error": XSS}}
        session.execute(update(WorkerRow).values(**worst))
        failed = {"outcome": "run_error", "error": XSS, "device_class": XSS}
        newest = session.scalars(
            select(TrialRow.id).where(TrialRow.job_id == job, TrialRow.outcome == "ok").order_by(-TrialRow.id)
        ).first()
        session.execute(update(TrialRow).where(TrialRow.id == newest).values(**failed))
    task = service.job(job)["tasks"][0]["id"]
    page = tab("/")
    for path in (
        *("/", f"/?q={XSS}", f"/jobs/{job}", f"/tasks/{task}", f"/trials/{newest}", "/failures"),
        *(f"/failures?job={job}", "/fleet?left=true", f"/records?q={XSS}", f"/compare?job={job}"),
        f"/jobs/{XSS}",
    ):
        page.goto(path)
        page.wait_for_timeout(400)
        assert page.evaluate("window.hacked") is None, path
        assert page.locator("img[src=x]").count() == 0, path
    tab.complaints[:] = [each for each in tab.complaints if "status of 4" not in each]
    page.goto(f"/failures?job={job}")
    assert XSS in page.locator("#groups").inner_text()
