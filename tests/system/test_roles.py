"""One worker builds, another times what it built: a job to its end, and either killed in the middle."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.system.modules import body
from tests.system.roles import Roles, is_fork_server
from tests.system.service import Service, accounted

_ROLES = {"worker-build": "build", "worker-measure": "measure"}


@pytest.fixture
def farm(bare_farm: tuple[Roles, Service], tmp_path: Path) -> tuple[Roles, Service]:
    roles, service = bare_farm
    for name in _ROLES:
        start(roles, name, tmp_path)
    wait_for_workers(service, roles, ["build", "measure"])
    return roles, service


def start(roles: Roles, name: str, home: Path) -> None:
    """Each with a directory of its own, as on two hosts."""
    work_dir = home / name
    roles.start(
        name,
        TILEFARM_WORKER_ROLE=_ROLES[name],
        TILEFARM_WORK_DIR=str(work_dir),
        TILEFARM_WORKER_SELFTEST_SECS="0",
    )


def wait_for_workers(
    service: Service,
    roles: Roles,
    wanted: list[str],
    until: Callable[[dict[str, Any]], bool] = lambda _worker: True,
) -> list[dict[str, Any]]:
    """The fleet, as soon as it has workers of just these roles, of which this holds."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        fleet = service.get("/v1/workers")["workers"]
        if sorted(worker["role"] for worker in fleet) == wanted and all(map(until, fleet)):
            return fleet
        time.sleep(0.2)
    said = [roles.log(name).read_text()[-2000:] for name in roles.names()]
    raise AssertionError(f"the workers did not come up: {said}")


@pytest.mark.slow
def test_a_job_survives_the_death_of_who_builds_and_of_who_measures(
    farm: tuple[Roles, Service], tmp_path: Path
) -> None:
    roles, service = farm
    job_id = service.submit(body("mm_relu", max_trials=24))["id"]
    for done, name in ((4, "worker-build"), (10, "worker-measure")):
        service.wait_for(job_id, lambda job, done=done: job["trials"]["done"] >= done)
        roles.kill(name)
        start(roles, name, tmp_path)
    job = service.wait_job(job_id)
    assert job["state"] == "succeeded", job
    assert accounted(job)
    assert job["trials"]["done"] == job["trials"]["submitted"] == 24
    trials = service.trials(job_id)
    searched = [trial for trial in trials if trial["purpose"] == "search"]
    assert len({trial["trace_hash"] for trial in searched}) == len(searched) == 24
    assert job["tasks"][0]["record_id"] is not None
    assert (tmp_path / "worker-measure" / "fetched").is_dir()
    assert not (tmp_path / "worker-measure" / "artifacts").exists()
    for trial in trials:
        if trial["outcome"] == "ok":
            assert trial["stage_secs"]["build"] > 0
            assert trial["stage_secs"]["measure"] > 0
    _check_logs(roles, job, searched[-1]["id"])


@pytest.mark.slow
def test_a_board_that_has_tvms_runtime_alone_joins_by_one_command_and_times_what_a_builder_made(
    bare_farm: tuple[Roles, Service], tmp_path: Path
) -> None:
    roles, service = bare_farm
    start(roles, "worker-build", tmp_path)
    [builder] = wait_for_workers(service, roles, ["build"])
    token = roles.command("token", "create", "board", "--scope", "worker").split()[-1]
    # All else it is told: it knows neither the broker nor the database, and there is no linker for it.
    roles.start(
        "worker-measure",
        before=("env", f"PATH={tmp_path / 'nothing'}"),
        words=("--join", service.url, "--token", token, "--role", "measure"),
        without=("TILEFARM_URL", "TILEFARM_TOKEN", "TILEFARM_BROKER_URL", "TILEFARM_DATABASE_URL"),
        TVM_USE_RUNTIME_LIB="1",
        TILEFARM_WORKER_TARGET=json.dumps(builder["target"]),
        TILEFARM_WORK_DIR=str(tmp_path / "board"),
    )
    fleet = wait_for_workers(
        service,
        roles,
        ["build", "measure"],
        until=lambda worker: worker["role"] == "build" or "selftest" in worker["facts"],
    )
    [board] = [worker for worker in fleet if worker["role"] == "measure"]
    assert board["facts"]["selftest"]["fma_gflops_all_cores"] > 1
    [fork_server] = [each for each in roles.tree("worker-measure") if is_fork_server(each)]
    mapped = {Path(mapping.path).name for mapping in fork_server.memory_maps()}
    assert "libtvm_runtime.so" in mapped
    assert "libtvm_compiler.so" not in mapped
    job = service.wait_job(service.submit(body("mm_relu", max_trials=16))["id"])
    assert job["state"] == "succeeded", job
    assert job["trials"]["done"] == job["trials"]["submitted"] == 16
    assert job["tasks"][0]["record_id"] is not None
    measured = [trial for trial in service.trials(job["id"]) if trial["outcome"] == "ok"]
    assert {trial["worker_id"] for trial in measured} == {board["id"]}
    assert all(trial["stage_secs"]["build"] > 0 for trial in measured)


def _check_logs(roles: Roles, job: dict[str, Any], trial_id: int) -> None:
    """One trial, followed by its ids from the submission to its outcome, through all processes."""
    task = job["tasks"][0]
    ids = {"job_id": job["id"], "task_id": task["id"], "search_id": task["search_id"]}
    (submitted,) = _lines(roles, "api", event="task_submitted")
    assert ids.items() <= submitted.items()
    ids["trial_id"] = trial_id
    sent = _lines(roles, "tuner", event="trial_sent", trial_id=trial_id)
    built = _lines(roles, "worker-build", kind="TrialBuilt", trial_id=trial_id)
    (timed,) = _lines(roles, "worker-measure", kind="TrialOutcome", trial_id=trial_id)
    (recorded,) = _lines(roles, "tuner", event="result_recorded", kind="TrialOutcome", trial_id=trial_id)
    for line in (*sent, *built, timed, recorded):
        assert ids.items() <= line.items()
    assert sent[-1]["attempt"] == timed["attempt"] == recorded["attempt"]
    assert timed["worker_id"] == recorded["worker_id"] != built[-1]["worker_id"]


def _lines(roles: Roles, name: str, **wanted: Any) -> list[dict[str, Any]]:
    """Lines of a role's log that say so."""
    lines = (json.loads(line) for line in roles.log(name).read_text().splitlines() if line[:1] == "{")
    return [line for line in lines if wanted.items() <= line.items()]
