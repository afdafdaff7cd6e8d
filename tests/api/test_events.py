"""The poller behind event streams: what hurts one job's watchers hurts no others, and it is never gone."""

import asyncio
from collections.abc import Callable

import pytest
from sqlalchemy import Engine

from db.session import reading
from services.api import events
from services.api.events import EventPoller
from services.api.settings import ApiSettings
from services.api.views import job_view
from tests.api.rows import set_job
from tests.tuning.rows import add_job, add_search, add_target

JOBS = ("job-1", "job-2")


@pytest.fixture
def engine_with_jobs(engine: Engine) -> Engine:
    search_id = add_search(engine, add_target(engine))
    for job_id in JOBS:
        add_job(engine, [search_id], job_id=job_id)
    return engine


@pytest.fixture
def settings(database_url: str) -> ApiSettings:
    return ApiSettings(database_url=database_url, events_poll_secs=0.02, events_heartbeat_secs=0.1)


def second_event(engine: Engine, settings: ApiSettings, change: Callable[[], None]) -> str:
    """Of the first job, after `change`; the other one is watched, too."""

    async def read() -> str:
        poller = EventPoller(engine, settings)
        with reading(engine) as session:
            streams = [poller.stream(view) for job in JOBS if (view := job_view(session, job)) is not None]
        for stream in streams:
            await anext(stream)
        change()
        async with asyncio.timeout(10):
            while (text := await anext(streams[0])).startswith(": alive"):
                pass
        for stream in streams:
            await stream.aclose()
        await poller.close()
        return text

    return asyncio.run(read())


def test_a_job_that_does_not_read_silences_no_other(engine_with_jobs: Engine, settings: ApiSettings) -> None:
    def change() -> None:
        set_job(engine_with_jobs, JOBS[1], state="newer")
        set_job(engine_with_jobs, JOBS[0], state="running")

    assert '"state":"running"' in second_event(engine_with_jobs, settings, change)


def test_a_poller_that_died_is_started_again(
    engine_with_jobs: Engine, settings: ApiSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    died: list[int] = []
    revisions = events.revisions

    def fails_once(session, ids):
        if not died:
            died.append(1)
            raise RuntimeError("nobody thought of that")
        return revisions(session, ids)

    monkeypatch.setattr(events, "revisions", fails_once)
    text = second_event(
        engine_with_jobs, settings, lambda: set_job(engine_with_jobs, JOBS[0], state="running")
    )
    assert '"state":"running"' in text
    assert died
