"""A real service and a headless Chromium that looks at it; without Chromium: not run, said plainly."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench.big_database import fill
from bench.pages import serving
from db.migrate import upgrade
from services.server.tokens import dashboard_link
from tests.system.modules import body
from tests.system.service import Service, run_service

_FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--no-first-run"),
)
XSS = '"><img src=x onerror="window.hacked=1"><script>window.hacked=1</script>'
#: `window.shift`: how far what is shown has jumped, as a part of the window, but for what an input asked for.
_SHIFTS = """window.shift = 0;
new PerformanceObserver((list) => list.getEntries().forEach((each) => {
  if (!each.hadRecentInput) window.shift += each.value;
})).observe({type: "layout-shift", buffered: true});"""
_NAMES = ("chromium", "chromium-browser", "google-chrome")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def chromium() -> Iterator:
    sync_api = pytest.importorskip("playwright.sync_api", reason="not run: no Playwright (make test-browser)")
    path = next(filter(None, map(shutil.which, _NAMES)), None)
    if path is None:
        pytest.skip("not run: no Chromium (on Debian: apt-get install chromium)")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(_FLAGS))
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def service(chromium, tmp_path_factory) -> Iterator[Service]:
    del chromium
    with run_service(tmp_path_factory.mktemp("browser") / "data") as running:
        yield running


@pytest.fixture(scope="session")
def job(service: Service) -> str:
    """A job that tunes for the length of the tests that need one."""
    made = service.submit({**body("mm_relu", max_trials=4000, seed=7), "name": XSS})["id"]
    service.wait_for(made, lambda view: view["trials"]["done"] > 0)
    return made


@pytest.fixture
def tab(chromium, service) -> Iterator["Tabs"]:
    tabs = Tabs(chromium, service)
    yield tabs
    tabs.close()


@pytest.fixture(scope="session")
def large(chromium, tmp_path_factory) -> Iterator["Large"]:
    """An API alone, on a database of 5,000 jobs, one task of which has 100,000 trials."""
    del chromium
    directory = tmp_path_factory.mktemp("large")
    url = f"sqlite:///{directory}/tilefarm.db"
    upgrade(url)
    job, task = fill(url, jobs=5_000, trials=100_000)
    with serving(url, directory) as (address, token):
        yield Large(address=address, token=token, job=job, task=task)


@dataclass(frozen=True, slots=True, kw_only=True)
class Large:
    address: str
    token: str
    #: The job and the task of the long search.
    job: str
    task: int


def every_page(service: Service, job: str) -> list[str]:
    task, trial = service.job(job)["tasks"][0]["id"], service.trials(job)[-1]["id"]
    here, compared = f"/jobs/{job}", f"/compare?job={job}"
    return [
        *("/", here, f"{here}?sort=-weighted", f"/tasks/{task}", f"/trials/{trial}", "/failures"),
        *(f"/failures?job={job}", "/fleet", "/fleet?left=true", "/records", "/records?which=all"),
        *(compared, f"{compared}&by=strategy", "/open"),
    ]


class Tabs:
    """Opens pages as the service's user; what a console says against a page fails the test at its end."""

    def __init__(self, chromium, service: Service) -> None:
        self._chromium, self._service = chromium, service
        self._contexts: list = []
        self.complaints: list[str] = []

    def __call__(self, path: str = "/", *, theme: str = "light", width: int = 1440, height: int = 900):
        context = self._chromium.new_context(
            viewport={"width": width, "height": height}, color_scheme=theme, base_url=self._service.url
        )
        self._contexts.append(context)
        page = context.new_page()
        page.add_init_script(_SHIFTS)
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.goto(self.link())
        page.wait_for_url(f"{self._service.url}/")
        page.goto(path)
        return page

    def at(self, large: Large):
        """A page of the large one."""
        context = self._chromium.new_context(viewport={"width": 1440, "height": 900}, base_url=large.address)
        self._contexts.append(context)
        assert context.request.post("/session", data={"token": large.token}).status == 204
        page = context.new_page()
        page.on("console", self._hear)
        return page

    def link(self) -> str:
        url = f"sqlite:///{self._service.data_dir / 'tilefarm.db'}"
        return dashboard_link(url, token=self._service.token, base_url=self._service.url)

    def _hear(self, message) -> None:
        if message.type in {"error", "warning"}:
            self.complaints.append(f"{message.type}: {message.text}")

    def close(self) -> None:
        for context in self._contexts:
            context.close()
        assert self.complaints == []
