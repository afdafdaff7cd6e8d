"""What operators read from /metrics: the farm, from rows and the broker, and this process's requests."""

import re

import pytest
import redis
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import text

from db.clock import utc_now
from db.states import JobState, Outcome
from db.tables import Row
from services.api.app import attach
from services.api.settings import ApiSettings
from tests.api import rows
from workers.queues import RESULTS


def scrape(api) -> dict[tuple[str, ...], float]:
    """(name, label values …) → value."""
    text_ = api("GET", "/metrics", as_=None).text
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text_)
        for sample in family.samples
    }


@pytest.fixture
def fresh(app, database_url, fork_server, valkey_url):
    """Rows are read anew by each scrape, and there is a broker."""
    app.state.engine.dispose()
    attach(
        app, ApiSettings(database_url=database_url, metrics_rows_secs=0, broker_url=valkey_url), fork_server
    )


def test_a_job_without_a_worker_shows_as_an_unserved_target(api, fresh):
    api.submit()
    assert scrape(api)[("tilefarm_targets_unserved",)] == 1
    api.join(name="board", role="measure")
    assert scrape(api)[("tilefarm_targets_unserved",)] == 1, "nobody builds for it"
    api.join(name="builder", role="build")
    found = scrape(api)
    assert found[("tilefarm_targets_unserved",)] == 0
    assert found[("tilefarm_workers", "alive")] == 2
    assert found[("tilefarm_workers_alive", "running")] == 2


def test_a_search_waits_until_it_is_leased(api, fresh, engine):
    job = api.submit().json()
    rows.set_job(engine, job["id"], state=JobState.RUNNING)
    found = scrape(api)
    assert (found[("tilefarm_searches_waiting",)], found[("tilefarm_leases",)]) == (1, 0)
    rows.set_search(engine, lease_owner="t1", lease_expires_at=utc_now(offset_secs=60))
    found = scrape(api)
    assert (found[("tilefarm_searches_waiting",)], found[("tilefarm_leases",)]) == (0, 1)
    assert found[("tilefarm_lease_owners",)] == 1


def test_trials_are_counted_by_outcome_and_each_outcome_is_there(api, fresh, engine):
    job = api.submit().json()
    rows.add_trials(engine, job["id"], outcome=Outcome.OK, count=2)
    rows.add_trials(engine, job["id"], outcome=Outcome.CUT_OFF)
    rows.add_trials(engine, job["id"], state="queued")
    found = scrape(api)
    counts = {key[1]: value for key, value in found.items() if key[0] == "tilefarm_trials_total"}
    assert counts == {outcome: {"ok": 2.0, "cut_off": 1.0}.get(outcome, 0.0) for outcome in Outcome}
    assert found[("tilefarm_open_trials", "queued")] == 1


def test_the_broker_tells_what_waits_in_it(api, fresh, valkey_url):
    client = redis.Redis.from_url(valkey_url.replace("redis+socket://", "unix://"))
    client.delete(RESULTS)
    client.rpush(RESULTS, "one", "two")
    try:
        found = scrape(api)
    finally:
        client.delete(RESULTS)
        client.close()
    assert found[("tilefarm_broker_up",)] == 1
    assert found[("tilefarm_broker_messages", "results")] == 2
    assert found[("tilefarm_broker_messages", "measure")] == 0


def test_a_broker_or_a_database_that_is_away_is_told_and_the_rest_still_counts(
    api, app, database_url, fork_server, engine
):
    app.state.engine.dispose()
    away = ApiSettings(
        database_url=database_url, metrics_rows_secs=0, broker_url="redis+socket:///nowhere/valkey.sock"
    )
    attach(app, away, fork_server)
    found = scrape(api)
    assert (found[("tilefarm_broker_up",)], found[("tilefarm_database_up",)]) == (0, 1)
    with engine.begin() as connection:
        for table in reversed(Row.metadata.sorted_tables):
            connection.execute(text(f"DROP TABLE {table.name}"))
    found = scrape(api)
    assert found[("tilefarm_database_up",)] == 0
    assert ("tilefarm_http_request_duration_seconds_count", "GET", "/metrics", "200") in found


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_counts_that_take_too_long_are_no_database_that_is_away(api, app, database_url, fork_server, engine):
    app.state.engine.dispose()
    settings = ApiSettings(database_url=database_url, metrics_rows_secs=0, database_timeout_secs=1)
    attach(app, settings, fork_server)
    with engine.begin() as connection:
        connection.execute(text("LOCK TABLE trials"))
        found = scrape(api)
    assert found[("tilefarm_database_up",)] == 1
    assert ("tilefarm_trials_total", "ok") not in found
    assert scrape(api)[("tilefarm_trials_total", "ok")] == 0


def test_requests_are_timed_by_route_and_never_by_path(api):
    before = scrape(api)
    api("GET", "/v1/jobs/job-abc")
    api("GET", "/etc/passwd", as_=None)
    api("BREW", "/v1/coffee", as_=None)
    found = scrape(api)

    def more(method: str, route: str, status: str) -> float:
        key = ("tilefarm_http_request_duration_seconds_count", method, route, status)
        return found.get(key, 0) - before.get(key, 0)

    assert more("GET", "/v1/jobs/{job_id}", "404") == 1
    assert more("any", "none", "404") == 2
    assert not [key for key in found if re.search("job-abc|passwd|coffee|BREW", str(key))]


def test_rows_are_read_once_for_many_scrapes(api):
    first = scrape(api)
    api.submit()
    assert scrape(api)[("tilefarm_database_up",)] == 1
    assert ("tilefarm_jobs", "queued") not in first
    assert ("tilefarm_jobs", "queued") not in scrape(api)
