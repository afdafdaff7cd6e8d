"""The dashboard as a person sees it, on a service that tunes: in order, from the first run to a restart."""

import re
import statistics
import time

import pytest

from tests.browser.conftest import XSS, Tabs, every_page
from tests.system.service import Service

_LIVE_SECS = 2.0
#: Trials done, as the page's header says; from a thousand on in groups.
_FINISHED = r"Number(document.querySelector('#figures .wide b').innerText.split('/')[0].replace(/\D/g, ''))"
#: Of the window, by which things may move while a page draws itself; 0.1 is called good.
_SHIFT = 0.05


def finished(page) -> int:
    """Trials done, as the page's header says."""
    return int(re.sub(r"\D", "", page.locator("#figures .wide b").inner_text().partition("/")[0]))


def test_the_first_run_teaches_and_runs_the_example(tab: Tabs):
    page = tab("/")
    assert page.get_by_role("heading", name="The farm is up").is_visible()
    page.get_by_role("button", name="Run the example").click()
    page.wait_for_url("**/jobs/job-*")
    assert page.get_by_role("heading", name="mm_relu").is_visible()


def test_a_job_moves_within_two_seconds_without_being_loaded_again(tab: Tabs, service: Service, job: str):
    page = tab(f"/jobs/{job}")
    page.evaluate("window.same = true")
    service.wait_for(job, lambda view: view["trials"]["done"] >= 3)
    known = service.job(job)["trials"]["done"]
    started = time.monotonic()
    while finished(page) < known:
        assert time.monotonic() - started < _LIVE_SECS
        page.wait_for_timeout(50)
    service.wait_for(job, lambda view: view["trials"]["done"] > known)
    page.wait_for_function(
        f"known => {_FINISHED} > known",
        arg=known,
        timeout=_LIVE_SECS * 1000,
    )
    assert page.evaluate("window.same") is True
    assert re.fullmatch(r"updated \d+ s ago", page.locator("#pulse-text").inner_text())


@pytest.mark.parametrize("path", ["/", "/fleet", "/records", "/failures"])
def test_a_page_without_events_is_as_fresh(tab: Tabs, job: str, path: str):
    page = tab(path)
    ages = []
    for _ in range(12):
        page.wait_for_timeout(400)
        ages.append(int(re.sub(r"\D", "", page.locator("#pulse-text").inner_text())))
    assert statistics.median(ages) <= _LIVE_SECS


def test_the_plots_of_a_task_are_drawn_and_the_switches_work(tab: Tabs, service: Service, job: str):
    task = service.job(job)["tasks"][0]["id"]
    page = tab(f"/tasks/{task}")
    page.locator("#curve .main-svg").first.wait_for()
    assert page.locator("#curve .scatterlayer .trace").count() >= 2
    page.get_by_role("button", name="time").click()
    page.get_by_role("button", name="linear").click()
    assert page.locator("#curve .xtitle").text_content() == "time since the first result"


@pytest.mark.parametrize(
    ("theme", "width", "height"),
    [
        pytest.param("light", 390, 844, id="phone"),
        pytest.param("dark", 1440, 900, id="laptop"),
        pytest.param("light", 2400, 1300, id="wall"),
    ],
)
def test_every_page_opens_without_complaint_and_without_sideways_scrolling(
    tab: Tabs, service: Service, job: str, theme: str, width: int, height: int
):
    page = tab("/", theme=theme, width=width, height=height)
    for path in every_page(service, job):
        page.goto(path)
        page.wait_for_timeout(300)
        if path.startswith(("/tasks", "/compare")):
            page.locator("#curve .main-svg").first.wait_for()
        assert page.evaluate("window.shift") < _SHIFT, path
        assert page.locator("h1").is_visible()
        over = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert over <= 0, path
        assert page.evaluate("window.hacked") is None, path


@pytest.mark.parametrize(("theme", "width"), [("light", 1440), ("dark", 390), ("dark", 2560)])
def test_axe_finds_no_fault_on_any_page(tab: Tabs, service: Service, job: str, theme: str, width: int):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page = tab("/", theme=theme, width=width)
    for path in (*every_page(service, job), "/tasks/999999999", "/no-such-page"):
        page.goto(path)
        page.wait_for_timeout(300)
        faults = axe.run(page).response["violations"]
        assert [(path, fault["id"], fault["nodes"][0]["html"][:200]) for fault in faults] == []
    tab.complaints[:] = [each for each in tab.complaints if "status of 404" not in each]


def test_a_string_of_a_client_is_shown_and_does_nothing(tab: Tabs, job: str):
    page = tab(f"/jobs/{job}")
    assert page.locator("h1").inner_text().startswith(XSS)
    assert page.evaluate("window.hacked") is None


def test_filters_stand_in_the_address_and_survive_a_reload(tab: Tabs):
    page = tab("/")
    page.get_by_role("searchbox").fill("mm_relu")
    page.keyboard.press("Enter")
    page.wait_for_url("**/?q=mm_relu*")
    page.locator("#chips a", has_text="paused").click()
    page.wait_for_url("**/*state=paused*")
    page.reload()
    assert page.get_by_role("searchbox").input_value() == "mm_relu"
    assert page.locator("#chips a[aria-current]").inner_text().startswith("paused")
    assert page.get_by_text("No job fits").is_visible()


def test_the_theme_that_was_chosen_stays(tab: Tabs):
    page = tab("/", theme="light")
    page.get_by_role("button", name="Light or dark").click()
    page.reload()
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "dark"


def test_controls_pause_and_resume(tab: Tabs, service: Service, job: str):
    page = tab(f"/jobs/{job}")
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Resume").wait_for()
    page.locator("#title .state-paused").wait_for()
    assert service.job(job)["state"] == "paused"
    page.get_by_role("button", name="Resume").click()
    page.locator("#title .state-running").wait_for()


def test_controls_extend_the_budget_and_set_the_priority(tab: Tabs, service: Service, job: str):
    page = tab(f"/jobs/{job}")
    for label, name, value in (("Budget, trials", "max_trials", 4321), ("Priority", "priority", 7)):
        page.get_by_label(label, exact=True).fill(str(value))
        page.get_by_role("button", name=f"Set {label.lower()}").click()
        service.wait_for(job, lambda view, name=name, value=value: view[name] == value)
    page.get_by_text("priority 7").wait_for()


def test_a_worker_is_drained_and_resumed_by_a_press(tab: Tabs, service: Service):
    page = tab("/fleet")
    page.get_by_role("button", name="Drain").first.click()
    page.locator("#workers", has_text="draining").wait_for()
    page.get_by_role("button", name="Resume").first.click()
    page.locator("#workers", has_not_text="draining").wait_for()
    assert service.get("/v1/workers")["workers"][0]["desired_state"] == "running"


def test_what_is_copied_is_what_stands_there(tab: Tabs, service: Service, job: str):
    page = tab(f"/tasks/{service.job(job)['tasks'][0]['id']}")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    for block in ("lookup-line", "again-line"):
        page.locator(f"[data-copy={block}]").click()
        page.locator(f"[data-copy={block}]", has_text="Copied").wait_for()
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied == page.locator(f"#{block}").text_content()
    assert "tilefarm submit task-" in copied


def test_the_decisions_explorer_filters_by_a_value_and_leads_to_a_trial(
    tab: Tabs, service: Service, job: str
):
    task = service.job(job)["tasks"][0]["id"]
    page = tab(f"/tasks/{task}")
    page.locator("#decisions").scroll_into_view_if_needed()
    lines = page.locator("#decisions path[data-trial]")
    lines.first.wait_for(state="attached")
    before = lines.count()
    value = page.locator("#decisions [data-value]").first
    value.focus()
    page.keyboard.press("Enter")
    assert 0 < lines.count() < before
    assert "trials" in page.locator("#decisions-said").inner_text()
    page.get_by_role("button", name="All trials").click()
    assert lines.count() >= before, "the job tunes on, and more trials may have come"
    lines.last.dispatch_event("click")
    page.wait_for_url("**/trials/*")


def test_a_trial_shows_its_scheduled_script_and_the_task_its_winner(tab: Tabs, service: Service, job: str):
    trial = next(each for each in service.trials(job) if each["outcome"] == "ok")
    page = tab(f"/trials/{trial['id']}")
    page.get_by_text("Scheduled script").click()
    page.locator("#script", has_text="T.prim_func").wait_for()
    assert page.locator("#script .k").count() > 3
    assert "sch." in page.locator("#trace-python").inner_text()


def test_what_was_missed_is_tuned_by_a_press(tab: Tabs, service: Service, job: str):
    shash, tvm_version = service.job(job)["tasks"][0]["workload"], service.trials(job)[-1]["tvm_version"]
    target = {**service.target, "num-cores": service.target["num-cores"] + 1}
    asked = {"target": target, "tvm_version": tvm_version, "workloads": [shash]}
    assert service.post("/v1/lookup", asked).status_code == 200
    page = tab("/records")
    page.get_by_role("button", name="Tune", exact=True).first.click(timeout=10_000)
    page.wait_for_url("**/jobs/job-*")
    made = page.url.rpartition("/")[2]
    assert service.job(made)["target"]["canonical"]["num-cores"] == target["num-cores"]
    service.post(f"/v1/jobs/{made}:cancel")


def test_a_guest_looks_and_acts_on_nothing(tab: Tabs, chromium, service: Service, job: str):
    owner = tab(f"/jobs/{job}")
    link = owner.evaluate(
        """async () => {
        const csrf = document.querySelector('meta[name=csrf]').content;
        const headers = {"Content-Type": "application/json", "X-CSRF-Token": csrf};
        const answer = await fetch("/session/guest-link", {method: "POST", body: "{}", headers});
        return (await answer.json()).url; }"""
    )
    context = chromium.new_context(base_url=service.url)
    page = context.new_page()
    page.goto(link)
    page.wait_for_url(f"{service.url}/")
    page.goto(f"/jobs/{job}")
    assert page.locator("#figures").is_visible()
    assert page.get_by_role("button", name="Pause").count() == 0
    page.locator("#steps svg").hover()
    assert re.search(r" · .*s · [\d.]+×$", page.locator("#steps .mark text").text_content())
    context.close()


@pytest.mark.parametrize("page_of", ["job", "task", "jobs", "fleet"])
def test_nothing_jumps_while_a_page_of_a_running_job_refreshes(
    tab: Tabs, service: Service, job: str, page_of: str
):
    task = service.job(job)["tasks"][0]["id"]
    paths = {"job": f"/jobs/{job}", "task": f"/tasks/{task}", "jobs": "/", "fleet": "/fleet"}
    page = tab(paths[page_of])
    page.wait_for_timeout(1000)
    page.evaluate("window.shift = 0")
    known = service.job(job)["trials"]["done"]
    service.wait_for(job, lambda view: view["trials"]["done"] > known or view["state"] != "running")
    page.wait_for_timeout(2500)
    assert page.evaluate("window.shift") < 0.02


def test_a_page_says_that_the_service_is_gone_and_recovers_when_it_is_back(
    tab: Tabs, service: Service, job: str
):
    page = tab(f"/jobs/{job}")
    page.locator("#pulse:not(.lost)").wait_for()
    page.evaluate("window.same = true")
    service.kill("api")
    page.get_by_text("The service does not answer").wait_for()
    page.locator("#pulse:not(.lost)").wait_for(timeout=60_000)
    known = service.wait_for(job, lambda view: view["trials"]["done"] > 0)["trials"]["done"]
    page.wait_for_function(f"known => {_FINISHED} >= known", arg=known)
    assert page.evaluate("window.same") is True
    refused = [each for each in tab.complaints if "ERR_" not in each and "status of 50" not in each]
    assert refused == []
    tab.complaints.clear()


def test_cancel_asks_first_and_acts(tab: Tabs, service: Service, job: str):
    page = tab(f"/jobs/{job}")
    page.once("dialog", lambda dialog: dialog.dismiss())
    page.get_by_role("button", name="Cancel").click()
    assert service.job(job)["desired_state"] == "running"
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Cancel").click()
    page.locator("#title .state-cancelled").wait_for()
    page.get_by_text("ended", exact=True).wait_for()
