"""One embedded service for all tests that do not kill anything of it; a farm of processes for the others."""

import contextlib
import socket
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import make_url, text

from db.session import connect
from tests.system.modules import body
from tests.system.roles import Roles
from tests.system.service import Service, run_service


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.system)


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """An embedded service that is shared; tests that kill parts of it start their own."""
    with run_service(tmp_path_factory.mktemp("service") / "data") as running:
        yield running


@pytest.fixture(scope="session")
def tuned_mm_relu(service: Service) -> dict[str, Any]:
    """A finished job on the classroom's mm_relu, in our design space."""
    job = service.submit(body("mm_relu", max_trials=32, space="tilefarm"))
    return service.wait_job(job["id"])


@pytest.fixture
def database(postgres_url: str) -> str:
    """The URL of a fresh PostgreSQL database without tables."""
    name = f"farm_{uuid.uuid4().hex}"
    engine = connect(postgres_url)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return make_url(postgres_url).set(database=name).render_as_string(hide_password=False)


@pytest.fixture
def bare_farm(database: str, valkey_url: str, tmp_path: Path) -> Iterator[tuple[Roles, Service]]:
    """API and tuner service on PostgreSQL and Valkey, as processes; workers are each test's own."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    env = {
        "TILEFARM_DATABASE_URL": database,
        "TILEFARM_BROKER_URL": valkey_url,
        "TILEFARM_PORT": str(port),
        "TILEFARM_URL": url,
        "TILEFARM_WORK_DIR": str(tmp_path / "work"),
        "TILEFARM_PROFILES": "local",
    }
    roles = Roles(tmp_path, env)
    roles.command("db", "upgrade")
    user = roles.command("token", "create", "user", "--scope", "admin").split()[-1]
    worker = roles.command("token", "create", "worker", "--scope", "worker").split()[-1]
    roles = Roles(tmp_path, {**env, "TILEFARM_TOKEN": worker})
    for role in ("api", "tuner"):
        roles.start(role)
    try:
        _wait_until_ready(url)
        yield roles, Service(process=None, url=url, token=user, target={}, data_dir=tmp_path)
    finally:
        roles.stop()


def _wait_until_ready(url: str) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with contextlib.suppress(httpx.TransportError):
            if httpx.get(f"{url}/readyz", timeout=5).is_success:
                return
        time.sleep(0.1)
    raise AssertionError("the API did not come up")
