"""`python -m bench pages`: weight and time to first content of the dashboard, at 100 and at 100,000 trials.

Two databases of many jobs, one task of which holds so many trials; the API alone serves them, a headless
Chromium looks. Needs what `make test-browser` needs: Playwright, and Chromium on the path.
"""

import argparse
import secrets
import shutil
import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from bench import report
from bench.big_database import fill
from bench.lookup_api import running_api
from bench.machine import commit, this_machine
from db.jobs_table import JobFilter, count_by_state, page_of_jobs
from db.migrate import upgrade
from db.session import connect, reading, transaction
from db.tasks import Task, tasks_of_jobs
from db.tokens import create_token

_CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run")
#: Where a page draws plots: what stands there when it has.
_DRAWN = {"task": "#curve .main-svg", "job": "#steps svg"}
_PAINTED = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--jobs", type=int, default=5000)
    parser.add_argument("--trials", type=int, nargs="+", default=[100, 100_000])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--dir", type=Path, help="of the databases; kept, and used again if filled")
    parser.add_argument("--fill-only", action="store_true", help="fill the databases and end")
    parser.add_argument("--dry", action="store_true", help="leave docs/ as it is")


def main(arguments: argparse.Namespace) -> int:
    results = {}
    for trials in arguments.trials:
        with _directory(arguments.dir, trials) as directory:
            url = f"sqlite:///{directory}/tilefarm.db"
            paths = _paths(_filled(url, jobs_count=arguments.jobs, trials=trials))
            if not arguments.fill_only:
                with serving(url) as (address, token):
                    results[trials] = _look(address, token, paths, repeats=arguments.repeats)
    if not results:
        return 0
    text = _table(results, jobs=arguments.jobs)
    print(text)
    report.write_json("pages.json", {str(trials): found for trials, found in results.items()})
    if not arguments.dry:
        report.write_section("pages", text)
    return 0


@contextmanager
def _directory(kept: Path | None, trials: int) -> Iterator[Path]:
    if kept is None:
        with tempfile.TemporaryDirectory(prefix="tilefarm-bench-") as passing:
            yield Path(passing)
    else:
        directory = kept / str(trials)
        directory.mkdir(parents=True, exist_ok=True)
        yield directory


def _filled(url: str, *, jobs_count: int, trials: int) -> Sequence[Task]:
    """The tasks of the long job and of another one; an empty database is filled first."""
    upgrade(url)
    engine = connect(url, pool_size=1)
    with reading(engine) as session:
        empty = not count_by_state(session)
    if empty:
        fill(url, jobs=jobs_count, trials=trials)
    with reading(engine) as session:
        jobs = [JobFilter(text="the long search"), JobFilter(descending=False)]
        ids = [page_of_jobs(session, wanted, limit=1, offset=0)[0].id for wanted in jobs]
        found = tasks_of_jobs(session, ids)
    engine.dispose()
    return sorted(found, key=lambda task: ids.index(task.job_id))


def _paths(tasks: Sequence[Task]) -> dict[str, str]:
    long, other = tasks
    return {
        "jobs": "/",
        "jobs by speed-up": "/?sort=-speedup",
        "job": f"/jobs/{long.job_id}",
        "task": f"/tasks/{long.id}",
        "trial": "/trials/1",
        "failures": "/failures",
        "fleet": "/fleet",
        "records": "/records",
        "compare": f"/compare?job={long.job_id}&job={other.job_id}",
    }


@contextmanager
def serving(url: str) -> Iterator[tuple[str, str]]:
    """The API's address, and a token that may look at all."""
    engine = connect(url, pool_size=1)
    with transaction(engine) as session:
        token = create_token(session, f"bench-{secrets.token_hex(4)}", scopes=["jobs:read", "records:read"])
    engine.dispose()
    with running_api(url) as address:
        yield address, token


def _look(address: str, token: str, paths: Mapping[str, str], *, repeats: int) -> dict[str, dict[str, Any]]:
    from playwright.sync_api import sync_playwright

    chromium = next(filter(None, map(shutil.which, _CHROMIUM)), None)
    if chromium is None:
        raise SystemExit("there is no Chromium; on Debian: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(_FLAGS))
        found = {
            name: _of_page(browser, address, token, name, path, repeats=repeats)
            for name, path in paths.items()
        }
        browser.close()
    return found


def _of_page(browser: Any, address: str, token: str, name: str, path: str, *, repeats: int) -> dict[str, Any]:
    """Cold: nothing is cached. Warm: the second time in the same browser. Medians; kB on the wire."""
    cold, warm = [], []
    for _ in range(repeats):
        context = browser.new_context(viewport={"width": 1440, "height": 900}, base_url=address)
        answer = context.request.post("/session", data={"token": token})
        assert answer.status == httpx.codes.NO_CONTENT
        page = context.new_page()
        cold.append(_visit(page, name, path))
        warm.append(_visit(page, name, path))
        context.close()
    median = {key: statistics.median(each[key] for each in cold) for key in cold[0]}
    return median | {f"warm_{key}": statistics.median(each[key] for each in warm) for key in warm[0]}


def _visit(page: Any, name: str, path: str) -> dict[str, float]:
    devtools = page.context.new_cdp_session(page)
    devtools.send("Network.enable")
    sizes: list[float] = []
    devtools.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
    page.goto(path, wait_until="load")
    if name in _DRAWN:
        page.locator(_DRAWN[name]).first.wait_for()
    drawn = page.evaluate("performance.now()")
    page.wait_for_function(_PAINTED)
    timing = page.evaluate("performance.getEntriesByType('navigation')[0].toJSON()")
    devtools.detach()
    return {
        "page_kb": timing["transferSize"] / 1000,
        "all_kb": sum(sizes) / 1000,
        "server_ms": timing["responseStart"] - timing["requestStart"],
        "first_content_ms": page.evaluate(_PAINTED),
        "drawn_ms": drawn,
    }


def _table(results: Mapping[int, Mapping[str, Mapping[str, float]]], *, jobs: int) -> str:
    head = ["page", "trials", "page, kB", "with all it loads, kB", "again, kB", "server, ms"]
    head += ["first content, ms", "again, ms", "plots drawn, ms"]
    rows = [
        [
            name,
            f"{trials:,}",
            *(f"{of[key]:.1f}" for key in ("page_kb", "all_kb", "warm_all_kb")),
            *(f"{of[key]:.0f}" for key in ("warm_server_ms", "first_content_ms", "warm_first_content_ms")),
            f"{of['warm_drawn_ms']:.0f}" if name in _DRAWN else "–",
        ]
        for name in next(iter(results.values()))
        for trials, of in ((trials, pages[name]) for trials, pages in results.items())
    ]
    said = (
        f"{this_machine()}; {jobs:,} jobs, one task with so many trials; SQLite; commit {commit()}.\n"
        "kB as they travel, compressed. First content: nothing cached, then again; server and plots: again."
    )
    return "\n".join([said, "", *report.markdown_table(head, rows)])
