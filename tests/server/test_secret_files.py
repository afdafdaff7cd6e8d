"""A secret may stand in a file; one that cannot be read is named."""

import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from services.api.settings import ApiSettings
from services.server.settings import ServerSettings
from services.tuning.settings import TunerSettings
from workers.settings import WorkerSettings


@pytest.fixture
def url_file(tmp_path: Path) -> Path:
    path = tmp_path / "database_url"
    path.write_text("postgresql+psycopg://tilefarm:s3cret@db/tilefarm\n")
    return path


@pytest.mark.parametrize("role", [ApiSettings, TunerSettings, ServerSettings])
def test_a_database_url_is_read_from_its_file(role, url_file, monkeypatch):
    monkeypatch.setenv("TILEFARM_BROKER_URL", "redis://broker/0")
    monkeypatch.setenv("TILEFARM_DATABASE_URL_FILE", str(url_file))
    assert role().database_url == "postgresql+psycopg://tilefarm:s3cret@db/tilefarm"


def test_a_token_is_read_from_its_file_and_not_shown(tmp_path, monkeypatch):
    (tmp_path / "token").write_text("tf_abc\r\n")
    monkeypatch.setenv("TILEFARM_TOKEN_FILE", str(tmp_path / "token"))
    settings = WorkerSettings()
    assert settings.token.get_secret_value() == "tf_abc"
    assert "tf_abc" not in repr(settings)


def test_a_variable_wins_over_its_file_and_an_option_over_both(url_file, monkeypatch):
    monkeypatch.setenv("TILEFARM_DATABASE_URL_FILE", str(url_file))
    monkeypatch.setenv("TILEFARM_DATABASE_URL", "sqlite:///here.db")
    assert ServerSettings().database_url == "sqlite:///here.db"
    assert ServerSettings(database_url="sqlite:///there.db").database_url == "sqlite:///there.db"


@pytest.mark.parametrize(
    ("content", "said"), [(None, "No such file"), (b"", "is empty"), (b"\xff\xfe", "not text")]
)
def test_a_file_that_holds_no_secret_is_refused_by_its_variables_name(tmp_path, monkeypatch, content, said):
    path = tmp_path / "broker_url"
    if content is not None:
        path.write_bytes(content)
    monkeypatch.setenv("TILEFARM_DATABASE_URL", "sqlite://")
    monkeypatch.setenv("TILEFARM_BROKER_URL_FILE", str(path))
    with pytest.raises(ValidationError, match=f"TILEFARM_BROKER_URL_FILE: .*{said}"):
        TunerSettings()


def test_the_command_tells_a_missing_file_in_a_line(tmp_path):
    ended = subprocess.run(
        [sys.executable, "-m", "services.server.cli", "tuner"],
        env={"TILEFARM_DATABASE_URL_FILE": str(tmp_path / "none"), "TILEFARM_BROKER_URL": "redis://b"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert line.startswith(f"tilefarm-server: TILEFARM_DATABASE_URL_FILE: {tmp_path / 'none'} cannot be read")
