"""The images' own commands, as plain processes: each role runs with nothing but its image's requirements."""

import contextlib
import json
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest
import yaml

from services.server.deathsig import DIE_WITH_PARENT
from tests.checks import modules
from tests.deploy.dockerfile import Image, images
from tests.deploy.role import ROOT, RoleEnvironment, closure, environment, named, size_bytes

IMAGES = images()
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
ROLES = ("admin", "api", "tuner", "worker")
WAIT_SECS = 60.0
#: The images listen on all addresses; a test does not.
LOOPBACK = {"TILEFARM_HOST": "127.0.0.1", "TILEFARM_METRICS_HOST": "127.0.0.1"}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def roles(tmp_path_factory) -> dict[str, RoleEnvironment]:
    return {role: RoleEnvironment(tmp_path_factory.mktemp(role), role) for role in ROLES}


def start(
    role: RoleEnvironment, image: Image, log: Path, variables: dict[str, str]
) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        return subprocess.Popen(
            [*DIE_WITH_PARENT, *role.command(image.command)],
            env=environment(**(image.environment | variables)),
            stdout=output,
            stderr=output,
        )


def run(role: RoleEnvironment, words: list[str], **variables: str) -> str:
    done = subprocess.run(
        role.command(words),
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def wait_for(probe, process: subprocess.Popen[bytes], log: Path) -> None:
    """Until it is true; a process that ends instead tells why."""
    deadline = time.monotonic() + WAIT_SECS
    while True:
        with contextlib.suppress(httpx.TransportError):
            if probe():
                return
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)


@pytest.fixture(scope="module")
def farm(roles, valkey_url, tmp_path_factory) -> Iterator[dict[str, str]]:
    """The four images' commands against SQLite and Valkey, with secrets in files, as compose starts them."""
    home = tmp_path_factory.mktemp("farm")
    files = {"database_url": f"sqlite:///{home / 'farm.db'}", "broker_url": valkey_url}
    for name, text in files.items():
        (home / name).write_text(text + "\n")
    database = {"TILEFARM_DATABASE_URL_FILE": str(home / "database_url")}
    broker = {"TILEFARM_BROKER_URL_FILE": str(home / "broker_url")}
    run(roles["admin"], IMAGES["admin"].command, **database)
    (home / "worker_token").write_text(secrets.token_hex(32))
    adopt = [word.replace("/run/secrets", str(home)) for word in COMPOSE["worker-token"]["command"]]
    run(roles["admin"], ["tilefarm-server", *adopt], **database)
    create = ["tilefarm-server", "token", "create", "u", "--scope", "jobs:write", "--scope", "jobs:read"]
    user = run(roles["admin"], create, **database)

    ports = {name: str(free_port()) for name in ("api", "tuner", "worker")}
    urls = {name: f"http://127.0.0.1:{port}" for name, port in ports.items()}
    given = {
        "api": {"TILEFARM_PORT": ports["api"], **database, **broker},
        "tuner": {"TILEFARM_TUNER_METRICS_PORT": ports["tuner"], **database, **broker},
        "worker": {
            "TILEFARM_URL": urls["api"],
            "TILEFARM_TOKEN_FILE": str(home / "worker_token"),
            "TILEFARM_WORKER_METRICS_PORT": ports["worker"],
            "TILEFARM_WORK_DIR": str(home / "work"),
            "TILEFARM_LOCK_DIR": str(home / "locks"),
            "TILEFARM_PROFILES": "here",
            "TILEFARM_WORKER_SELFTEST_SECS": "0",
        },
    }
    started = {}
    try:
        for role, own in given.items():
            image = Image(command=IMAGES[role].command, environment=IMAGES[role].environment | LOOPBACK)
            started[role] = start(roles[role], image, home / f"{role}.log", own)
        for role, process in started.items():
            ready = f"{urls[role]}/readyz"
            wait_for(lambda ready=ready: httpx.get(ready).is_success, process, home / f"{role}.log")
        yield {**urls, "token": user.strip(), "worker_token": str(home / "worker_token")}
    finally:
        codes = end(list(started.values()))
    assert set(codes) <= {0, -signal.SIGTERM}


def end(processes: list[subprocess.Popen[bytes]]) -> list[int]:
    for process in processes:
        process.send_signal(signal.SIGTERM)
    return [process.wait(30) for process in processes]


def test_every_role_comes_up_with_its_images_requirements_alone(farm):
    for role in ("api", "tuner", "worker"):
        assert httpx.get(f"{farm[role]}/healthz").status_code == 200
        assert "tilefarm_" in httpx.get(f"{farm[role]}/metrics").text
    found = httpx.get(f"{farm['api']}/metrics").text
    assert 'tilefarm_workers{health="alive"} 1.0' in found


def test_a_submission_is_read_by_an_api_that_has_no_xgboost(farm, roles):
    assert not roles["api"].imports("xgboost")
    assert not roles["api"].imports("scipy")
    body = {"module": modules.graph("matmul_relu"), "target": "here", "max_trials": 1}
    answer = httpx.post(
        f"{farm['api']}/v1/jobs", json=body, headers={"Authorization": f"Bearer {farm['token']}"}, timeout=60
    )
    assert answer.status_code == 201, answer.text
    assert len(answer.json()["tasks"]) == 1


def test_an_image_lacks_what_its_role_must_not_have(roles):
    assert not roles["admin"].imports("tvm")
    assert not roles["worker"].imports("psycopg")
    assert not roles["worker"].imports("sqlalchemy")
    assert not roles["worker"].imports("xgboost")
    assert roles["tuner"].imports("xgboost")
    assert roles["worker"].imports("services.server.selftest")


def test_what_a_role_installs_stays_small():
    """Installed bytes of all its distributions, in MiB; TVM alone is 330."""
    sizes = {role: size_bytes(closure(named(role))) >> 20 for role in ROLES}
    assert sizes["admin"] < 80
    assert sizes["api"] < 560
    assert sizes["worker"] < 460
    assert sizes["tuner"] < 660


def test_a_measurer_joins_without_ever_loading_the_compiler(farm, roles, tmp_path):
    port, log = free_port(), tmp_path / "measurer.log"
    target = {"kind": "llvm", "mcpu": "x86-64-v2", "num-cores": 1}
    given = {
        "TILEFARM_URL": farm["api"],
        "TILEFARM_TOKEN_FILE": farm["worker_token"],
        "TILEFARM_WORKER_METRICS_PORT": str(port),
        "TILEFARM_WORK_DIR": str(tmp_path / "work"),
        "TILEFARM_LOCK_DIR": str(tmp_path / "locks"),
        "TILEFARM_WORKER_TARGET": json.dumps(target),
        "TILEFARM_WORKER_NAME": "board",
    }
    image = Image(command=IMAGES["measurer"].command, environment=IMAGES["measurer"].environment | LOOPBACK)
    process = start(roles["worker"], image, log, given)
    try:
        wait_for(lambda: httpx.get(f"http://127.0.0.1:{port}/readyz").is_success, process, log)
        answer = httpx.get(f"{farm['api']}/v1/workers", headers={"Authorization": f"Bearer {farm['token']}"})
        (board,) = [worker for worker in answer.json()["workers"] if worker["name"] == "board"]
        assert (board["role"], board["target"], board["health"]) == ("measure", target, "alive")
        (fork_server,) = psutil.Process(process.pid).children()
        mapped = {Path(mapping.path).name for mapping in fork_server.memory_maps()}
        assert "libtvm_runtime.so" in mapped
        assert "libtvm_compiler.so" not in mapped
    finally:
        end([process])


def test_a_health_check_fails_where_nothing_listens(farm, roles):
    """The very words of the images' HEALTHCHECK, on the port of this run."""
    for role, port in (("api", "8765"), ("tuner", "9101"), ("worker", "9102")):
        words = IMAGES[role].health
        own = [word.replace(f"127.0.0.1:{port}", farm[role].removeprefix("http://")) for word in words]
        assert own != words
        run(roles[role], own)
        nowhere = [word.replace(f"127.0.0.1:{port}", f"127.0.0.1:{free_port()}") for word in words]
        done = subprocess.run(
            roles[role].command(nowhere), env=environment(), capture_output=True, check=False
        )
        assert done.returncode == 1


def test_the_cli_of_every_image_explains_itself(roles):
    for role, words in (("admin", ["db"]), ("api", ["api"]), ("tuner", ["tuner"]), ("worker", ["worker"])):
        assert "usage: tilefarm-server" in run(roles[role], ["tilefarm-server", *words, "--help"])


def test_images_are_pinned_to_the_tested_versions():
    """Each distribution of an image has a line in constraints.txt, or comes without a version."""
    pinned = {line.partition("==")[0].lower().replace("_", "-") for line in constraints()}
    for role in ROLES:
        assert set(closure(named(role))) <= pinned, role
    assert {each.name for each in named("worker-cuda")} <= pinned


def constraints() -> list[str]:
    return (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
