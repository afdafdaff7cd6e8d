"""docker-compose.yml: valid, hardened, and of commands, variables and ports that really exist."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from services.server.cli import main
from services.tuning.settings import TunerSettings
from tests.deploy.dockerfile import images
from tests.deploy.settings_of import variables

FILE = Path(__file__).parents[2] / "docker-compose.yml"
COMPOSE: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = [name for name, service in SERVICES.items() if "build" in service]
IMAGES = images()


def test_it_is_a_compose_file():
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(FILE)]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_dockerfile_has_no_fault_that_hadolint_knows():
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run(
        [hadolint, FILE.with_name("Dockerfile")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_hardened_and_bounded(name):
    service = SERVICES[name]
    user = service.get("user") or IMAGES[service["build"]["target"]].user
    assert not user.startswith(("0", "root"))
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["mem_limit"]
    assert service["pids_limit"] > 0
    assert not [volume for volume in service.get("volumes", []) if "docker.sock" in volume]


def test_workers_alone_may_time_in_real_time():
    """By a limit, without a capability: Docker gives an ordinary user's process none."""
    granted = {name for name, service in SERVICES.items() if service.get("ulimits") == {"rtprio": 1}}
    assert granted == {"worker", "worker-gpu"}
    assert not [name for name, service in SERVICES.items() if "cap_add" in service]


@pytest.mark.parametrize("name", SERVICES)
def test_secrets_come_from_files_and_are_declared(name):
    service = SERVICES[name]
    given = service.get("environment", {})
    named = {Path(value.rstrip("}")).name for key, value in given.items() if key.endswith("_FILE")}
    assert named <= set(service.get("secrets", ())) <= set(COMPOSE["secrets"])
    assert not {"TILEFARM_DATABASE_URL", "TILEFARM_BROKER_URL", "TILEFARM_TOKEN"} & given.keys()
    assert all("file" in secret for secret in COMPOSE["secrets"].values())


def test_records_are_signed_where_a_key_is_named_and_only_there(tmp_path, monkeypatch):
    variable = SERVICES["tuner"]["environment"]["TILEFARM_SIGNING_KEY_FILE"]
    assert variable == "${SIGNING_KEY_FILE:+/run/secrets/signing_key}"
    assert COMPOSE["secrets"]["signing_key"]["file"] == "${SIGNING_KEY_FILE:-/dev/null}"
    urls = {"database_url": "sqlite://", "broker_url": "memory://"}
    monkeypatch.setenv("TILEFARM_SIGNING_KEY_FILE", "")
    assert TunerSettings(**urls).signing_key is None
    key = tmp_path / "signing_key"
    assert main(["key", "create", str(key)]) == 0
    monkeypatch.setenv("TILEFARM_SIGNING_KEY_FILE", str(key))
    assert TunerSettings(**urls).signing_key is not None


@pytest.mark.parametrize("name", OURS)
def test_commands_and_variables_of_a_service_exist(name, capsys):
    service = SERVICES[name]
    target = service["build"]["target"]
    with pytest.raises(SystemExit) as ended:
        main([*service["command"], "--help"])
    assert ended.value.code == 0
    assert "usage: tilefarm-server " + service["command"][0] in capsys.readouterr().out
    assert set(service.get("environment", {})) <= variables(target)
    ours = {each for each in IMAGES[target].environment if each.startswith("TILEFARM_")}
    assert ours <= variables(target)


def test_only_the_api_listens_outside_and_only_on_loopback_unless_told():
    ports = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert ports == {"api": ["${TILEFARM_BIND:-127.0.0.1}:${TILEFARM_PUBLIC_PORT:-8765}:8765"]}
    assert 8765 in IMAGES["api"].ports


def test_workers_reach_neither_the_database_nor_the_world():
    for name in ("worker", "worker-gpu"):
        assert set(SERVICES[name]["networks"]) == {"fleet", "broker"}
        assert "database_url" not in SERVICES[name]["secrets"]
    assert all(COMPOSE["networks"][name]["internal"] for name in ("database", "broker", "fleet"))


def test_a_worker_may_load_what_it_built():
    for name in ("worker", "worker-gpu"):
        (work,) = [mount for mount in SERVICES[name]["tmpfs"] if mount.startswith("/work:")]
        assert "exec" in work.partition(":")[2].split(",")


def test_the_database_is_healthy_when_others_reach_it():
    """The image's first server, which makes the database, listens at its socket alone."""
    test = SERVICES["postgres"]["healthcheck"]["test"]
    assert test[test.index("--host") + 1] == "127.0.0.1"


def test_the_gpu_worker_starts_only_where_it_is_asked_for():
    asked = {name for name, service in SERVICES.items() if "profiles" in service}
    assert asked == {"worker-gpu"}
    assert SERVICES["worker-gpu"]["profiles"] == ["gpu"]
    assert SERVICES["worker-gpu"]["build"]["target"] == "worker-cuda"
    (device,) = SERVICES["worker-gpu"]["deploy"]["resources"]["reservations"]["devices"]
    assert (device["driver"], device["capabilities"]) == ("nvidia", ["gpu"])


def test_the_schema_comes_before_every_role_that_needs_it():
    for name in ("api", "tuner", "worker-token"):
        assert SERVICES[name]["depends_on"]["migrate"] == {"condition": "service_completed_successfully"}
