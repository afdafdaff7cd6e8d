"""The same roles as plain processes on PostgreSQL and Valkey, as a farm runs them, killed in the middle."""

import contextlib
import time

import httpx
import pytest

from tests.system.modules import body
from tests.system.roles import Roles
from tests.system.service import Service, accounted


@pytest.fixture
def farm(bare_farm: tuple[Roles, Service]) -> tuple[Roles, Service]:
    roles, service = bare_farm
    roles.start("worker")
    service.target = _wait_until_served(service.url, service.token)
    return roles, service


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
    job_id = service.submit(body("mm_relu", max_trials=18))["id"]
    for done, role in ((4, "worker"), (7, "tuner"), (10, "api")):
        service.wait_for(job_id, lambda job, done=done: job["trials"]["done"] >= done)
        roles.kill(role)
        roles.start(role)
    job = service.wait_job(job_id)
    assert job["state"] == "succeeded", job
    assert accounted(job)
    assert job["trials"]["done"] == job["trials"]["submitted"] == 18
    trials = [trial for trial in service.trials(job_id) if trial["purpose"] == "search"]
    assert len({trial["trace_hash"] for trial in trials}) == len(trials) == 18
    assert job["tasks"][0]["record_id"] is not None
