"""Roles on a PostgreSQL that hangs: they say so in time, live on, and end when they are told to."""

import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import psutil
import pytest

from tests.servers import Postgres, Valkey, short_dir, stopped
from tests.system.roles import Roles

_START_SECS = 60.0
_TIMEOUT_SECS = 2
#: Three that the API gives to requests, two of waiting for the database, and room.
_END_SECS = 10.0
#: A limit of two seconds, two of grace, and the five that a new connection may take.
_BOUND_SECS = 20.0


class House:
    """An API and a tuner service on a PostgreSQL of their own, whose roles each test starts and ends."""

    def __init__(self, home: Path, postgres: Postgres, valkey: Valkey) -> None:
        self.postgres = postgres
        self.port, self.tuner_port = _free_port(), _free_port()
        env = {
            "TILEFARM_DATABASE_URL": postgres.url(),
            "TILEFARM_BROKER_URL": valkey.url,
            "TILEFARM_PORT": str(self.port),
            "TILEFARM_TUNER_METRICS_PORT": str(self.tuner_port),
            "TILEFARM_METRICS_ROWS_SECS": "0",
        }
        self.roles = Roles(home, env)
        self.roles.command("db", "upgrade")
        self.token = self.roles.command("token", "create", "t", "--scope", "jobs:read").strip()

    def start(self, *, timeout_secs: int) -> None:
        for role in ("api", "tuner"):
            self.roles.start(role, TILEFARM_DATABASE_TIMEOUT_SECS=str(timeout_secs))
        for port in (self.port, self.tuner_port):
            wait_until_ready(port)

    def ask(self, path: str = "/v1/jobs", *, port: int | None = None) -> httpx.Response:
        url = f"http://127.0.0.1:{port or self.port}{path}"
        return httpx.get(url, headers={"Authorization": f"Bearer {self.token}"}, timeout=60)

    def pids(self) -> list[int]:
        return [self.roles.tree(name)[0].pid for name in ("api", "tuner")]


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def wait_until_ready(port: int) -> None:
    deadline = time.monotonic() + _START_SECS
    while True:
        try:
            answer = httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=10)
            if answer.status_code == 200:
                return
            said = answer.text
        except httpx.TransportError as error:
            said = repr(error)
        assert time.monotonic() < deadline, said
        time.sleep(0.1)


@pytest.fixture(scope="module")
def servers() -> Iterator[House]:
    with short_dir() as home:
        postgres, valkey = Postgres(home).create().start(), Valkey(home).start()
        try:
            yield House(home, postgres, valkey)
        finally:
            valkey.end()
            postgres.end()


@pytest.fixture
def house(servers: House) -> Iterator[House]:
    try:
        yield servers
    finally:
        servers.roles.stop()


def test_a_database_that_hangs_is_told_in_time_and_both_roles_go_on_when_it_does(house: House) -> None:
    house.start(timeout_secs=_TIMEOUT_SECS)
    pids = house.pids()
    assert house.ask().status_code == 200
    with stopped(house.postgres), ThreadPoolExecutor(40) as pool:
        began = time.monotonic()
        # More than there are threads: some wait for those that wait for the database.
        asked = [pool.submit(house.ask) for _ in range(40)]
        assert house.ask("/healthz").status_code == 200
        unready = house.ask("/readyz")
        assert unready.elapsed.total_seconds() < 5
        assert unready.status_code == 503, unready.text
        assert unready.json()["errors"][0]["code"] == "database"
        for answer in (each.result() for each in asked):
            assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
            assert answer.json()["type"].endswith("/database_unavailable")
        assert time.monotonic() - began < _BOUND_SECS
        page = house.ask("/records")
        assert page.status_code in {303, 503}
        metrics = house.ask("/metrics")
        assert (metrics.status_code, "tilefarm_database_up 0.0" in metrics.text) == (200, True)
        while house.ask("/readyz", port=house.tuner_port).status_code == 200:
            assert time.monotonic() - began < 2 * _BOUND_SECS
            time.sleep(0.1)
        unready = house.ask("/readyz", port=house.tuner_port)
        assert "the database does not answer" in unready.text
        assert house.ask("/healthz", port=house.tuner_port).status_code == 200
    for port in (house.port, house.tuner_port):
        wait_until_ready(port)
    assert house.ask().status_code == 200
    assert house.pids() == pids
    assert "database_away" in house.roles.log("tuner").read_text()


def test_both_roles_end_within_seconds_while_it_hangs(house: House) -> None:
    """Also where a statement may take minutes, and requests wait for one."""
    house.start(timeout_secs=600)
    processes = [house.roles.tree(name)[0] for name in ("api", "tuner")]
    with stopped(house.postgres), ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(_asked, house) for _ in range(8)]
        time.sleep(2)
        assert not any(each.done() for each in asked)
        for name in ("api", "tuner"):
            house.roles.signal(name, signal.SIGTERM)
        _gone, alive = psutil.wait_procs(processes, timeout=_END_SECS)
        assert alive == []
    for name in ("api", "tuner"):
        house.roles.end(name)


def _asked(house: House) -> int | None:
    """The status; None where the API ended before it answered."""
    try:
        return house.ask().status_code
    except httpx.TransportError:
        return None
