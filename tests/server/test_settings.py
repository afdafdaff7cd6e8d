"""The tables of settings in docs/operations.md are complete and true; roles agree where they share a name."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError
from pydantic_settings import BaseSettings

from services.api.settings import DEFAULT_PORT, ApiSettings
from services.server.settings import ServerSettings
from services.tuning.settings import TunerSettings
from workers.settings import WorkerSettings

DOCS = Path(__file__).parents[2] / "docs" / "operations.md"
ROLES: dict[str, type[BaseSettings]] = {
    "api": ApiSettings,
    "tuner": TunerSettings,
    "worker": WorkerSettings,
    "`up`, `db` and `token`": ServerSettings,
}
#: Its default depends on the host.
OF_THE_HOST = {"TILEFARM_LOCK_DIR", "TILEFARM_WORK_DIR"}


def documented(role: str) -> dict[str, str]:
    """Variable → default, of the role's table."""
    section = DOCS.read_text(encoding="utf-8").partition(f"\n### {role}\n")[2].partition("\n###")[0]
    return dict(re.findall(r"^\| `(TILEFARM_\w+)` \| ([^|]+) \|", section, re.MULTILINE))


def real(settings: type[BaseSettings]) -> dict[str, str]:
    return {
        f"TILEFARM_{name.upper()}": "required" if field.is_required() else shown(name, field.default)
        for name, field in settings.model_fields.items()
        if field.validation_alias is None
    }


def shown(name: str, default: object) -> str:
    """A default as the tables write it."""
    if default is None:
        return "none"
    if isinstance(default, int) and name.endswith("_bytes"):
        return f"{default >> 30} GiB" if default >= 1 << 30 else f"{default >> 20} MiB"
    text = "" if default == () else f"{default:g}" if isinstance(default, float) else str(default)
    return "empty" if text in ("", "SecretStr('')") else text


@pytest.mark.parametrize("role", ROLES)
def test_every_setting_stands_in_its_roles_table_with_its_default(role: str) -> None:
    told, true = documented(role), real(ROLES[role])
    assert told.keys() == true.keys()
    assert {name: told[name] for name in told if name not in OF_THE_HOST} == {
        name: true[name] for name in true if name not in OF_THE_HOST
    }


def test_api_and_tuner_agree_on_when_a_worker_is_dead() -> None:
    ages = {role.model_fields["dead_after_secs"].default for role in (ApiSettings, TunerSettings)}
    assert ages == {10.0}


def test_a_worker_looks_for_the_api_where_it_listens() -> None:
    assert ApiSettings.model_fields["port"].default == DEFAULT_PORT
    assert WorkerSettings.model_fields["url"].default.port == DEFAULT_PORT


@pytest.mark.parametrize(
    ("role", "variables", "named"),
    [
        ("api", {"TILEFARM_DATABASE_URL": "sqlite://", "TILEFARM_PORT": "many"}, "TILEFARM_PORT"),
        ("api", {"TILEFARM_DATABASE_URL": "no URL at all"}, "TILEFARM_DATABASE_URL"),
        ("tuner", {"TILEFARM_DATABASE_URL": "sqlite://"}, "TILEFARM_BROKER_URL"),
        ("worker", {"TILEFARM_WORKER_CORES": "0"}, "TILEFARM_WORKER_CORES"),
    ],
)
def test_a_setting_that_does_not_read_is_named(role: str, variables: dict[str, str], named: str) -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith("TILEFARM_")}
    ended = subprocess.run(
        [sys.executable, "-m", "services.server.cli", role],
        env=env | variables,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 2
    assert [line.split(":")[1].strip() for line in ended.stderr.splitlines()] == [named]


@pytest.mark.parametrize(
    "url",
    ["mysql://u:secret@h/d", "postgresql+asyncpg://u:secret@h/d", "postgresql://u:secret@h:port/d", "x"],
)
def test_a_database_that_is_not_served_is_refused_and_its_password_stays_secret(url: str) -> None:
    with pytest.raises(ValidationError) as refused:
        ApiSettings(database_url=url)
    said = refused.value.errors()[0]["msg"]
    assert "postgresql+psycopg://" in said
    assert "secret" not in said


def test_the_short_name_of_postgresql_is_understood() -> None:
    assert ApiSettings(database_url="postgres://u@h/d").database_url == "postgresql://u@h/d"
