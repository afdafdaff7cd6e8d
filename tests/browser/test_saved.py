"""What a page shows may be taken along: every table and every chart, as CSV and as JSON."""

from tests.browser.conftest import Tabs, every_page
from tests.system.service import Service

#: Drawn things on whose card, or on whose page where they stand alone, nothing saves them.
_UNSAVED = """() => [...document.querySelectorAll("table, .plot, .steps, .decisions, .stages, .hours")]
    .filter((each) => !(each.closest(".card") ?? document.querySelector("main")).querySelector(".saves"))
    .map((each) => each.outerHTML.slice(0, 80))"""


def test_tables_are_saved_as_csv_and_json(tab: Tabs, job: str):
    page = tab(f"/jobs/{job}")
    for form in ("CSV", "JSON"):
        with page.expect_download() as saved:
            page.locator("section", has=page.locator("#h-tasks")).get_by_role("link", name=form).click()
        assert saved.value.suggested_filename == f"tasks.{form.lower()}"
        assert "best_latency_secs" in saved.value.path().read_text()


def test_every_table_and_every_chart_is_saved(tab: Tabs, service: Service, job: str):
    page = tab("/")
    saved: set[str] = set()
    for path in every_page(service, job):
        page.goto(path)
        page.wait_for_timeout(200)
        assert page.evaluate(_UNSAVED) == [], path
        links = page.locator(".saves a")
        saved |= {links.nth(n).get_attribute("href") for n in range(links.count())}
    assert len(saved) >= 40
    for href in saved:
        answer = page.request.get(href)
        assert answer.ok, href
        assert ("json" if ".json" in href or "csv" not in href else "csv") in answer.headers["content-type"]
