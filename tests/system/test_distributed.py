"""The same roles as plain processes on PostgreSQL and Valkey, as a farm runs them, killed in the middle."""

import contextlib
import socket
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from sqlalchemy import make_url, text

from db.session import connect
from tests.system.modules import body
from tests.system.roles import Roles
from tests.system.service import Service, accounted


@pytest.fixture
def database(postgres_url: str) -> str:
    name = f"farm_{uuid.uuid4().hex}"
    engine = connect(postgres_url)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return make_url(postgres_url).set(database=name).render_as_string(hide_password=False)


@pytest.fixture
def farm(database: str, valkey_url: str, tmp_path: Path) -> Iterator[tuple[Roles, Service]]:
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
    farm = Roles(tmp_path, env)
    farm.command("db", "upgrade")
    user = farm.command("token", "create", "user", "--scope", "admin").split()[-1]
    worker = farm.command("token", "create", "worker", "--scope", "worker").split()[-1]
    farm = Roles(tmp_path, {**env, "TILEFARM_TOKEN": worker})
    for role in ("api", "tuner", "worker"):
        farm.start(role)
    try:
        target = _wait_until_served(url, user)
        yield farm, Service(process=None, url=url, token=user, target=target, data_dir=tmp_path)
    finally:
        farm.stop()


def _wait_until_served(url: str, token: str) -> dict[str, object]:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with contextlib.suppress(httpx.TransportError):
            answer = httpx.get(
                f"{url}/v1/targets/local", headers={"Authorization": f"Bearer {token}"}, timeout=5
            )
            if answer.is_success and answer.json()["workers_alive"] > 0:
                canonical: dict[str, object] = answer.json()["target"]
                return canonical
        time.sleep(0.2)
    raise AssertionError("the farm did not come up")


def test_a_job_survives_killing_worker_tuner_and_api_one_after_the_other(
    farm: tuple[Roles, Service],
) -> None:
    roles, service = farm
    job_id = service.submit(body("mm_relu", max_trials=48))["id"]
    for done, role in ((4, "worker"), (12, "tuner"), (20, "api")):
        service.wait_for(job_id, lambda job, done=done: job["trials"]["done"] >= done)
        roles.kill(role)
        roles.start(role)
    job = service.wait_job(job_id)
    assert job["state"] == "succeeded", job
    assert accounted(job)
    assert job["trials"]["done"] == job["trials"]["submitted"] == 48
    trials = [trial for trial in service.trials(job_id) if trial["purpose"] == "search"]
    assert len({trial["trace_hash"] for trial in trials}) == len(trials) == 48
    assert job["tasks"][0]["record_id"] is not None
