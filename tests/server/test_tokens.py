"""`tilefarm-server token|db|up`: what is asked for in vain is told in one line."""

import pytest

from db.migrate import upgrade
from services.server import embedded
from services.server.cli import main
from services.server.home import EmbeddedError, Home


@pytest.fixture
def database(tmp_path, monkeypatch) -> str:
    url = f"sqlite:///{tmp_path / 'tilefarm.db'}"
    monkeypatch.setenv("TILEFARM_DATABASE_URL", url)
    return url


@pytest.mark.parametrize(
    "words",
    [
        [""],
        ["two\nlines"],
        ["n" * 121],
        ["short", "--days", "nan"],
        ["short", "--days", "-1"],
        ["short", "--days", "1e300"],
    ],
)
def test_a_name_or_a_lifetime_that_makes_no_sense_makes_no_token(database, capsys, words):
    upgrade(database)
    assert main(["token", "create", *words, "--scope", "jobs:read"]) == 2
    assert "tilefarm-server token: " in capsys.readouterr().err
    assert main(["token", "list"]) == 0
    assert not capsys.readouterr().out


def test_a_token_is_listed_by_name_and_revoked_once(database, capsys):
    upgrade(database)
    assert main(["token", "create", "farm", "--scope", "jobs:read", "--days", "2"]) == 0
    token = capsys.readouterr().out.strip()
    assert main(["token", "list"]) == 0
    listed = capsys.readouterr().out
    assert listed.startswith("farm ")
    assert token not in listed
    assert (main(["token", "revoke", "farm"]), main(["token", "revoke", "farm"])) == (0, 1)


@pytest.mark.parametrize("words", [["token", "list"], ["db", "upgrade"]])
def test_a_database_that_is_not_there_is_told_in_a_line(monkeypatch, capsys, words):
    monkeypatch.setenv("TILEFARM_DATABASE_URL", "sqlite:////nowhere/at/all.db")
    assert main(words) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "TILEFARM_DATABASE_URL" in line


@pytest.mark.parametrize("words", [["token", "list"], ["db", "upgrade"]])
def test_a_database_url_that_does_not_read_is_told_in_a_line(monkeypatch, capsys, words):
    monkeypatch.setenv("TILEFARM_DATABASE_URL", "nonsense")
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "TILEFARM_DATABASE_URL: it does not read as a URL" in line


def test_a_database_without_tables_is_told_in_a_line(database, capsys):
    assert main(["token", "list"]) == 1
    assert "no such table" in capsys.readouterr().err


def test_up_tells_what_it_cannot_use(capsys):
    # A port is chosen once the log is open, which would stay every later test's log.
    with pytest.raises(EmbeddedError, match="0 to 65535"):
        embedded.choose_address("127.0.0.1", 99_999)
    assert main(["up", "--data-dir", "/proc/none/such"]) == 1
    assert "tilefarm-server up: /proc/none/such" in capsys.readouterr().err


def test_up_says_how_the_client_finds_the_token(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEFARM_DATA_DIR", str(tmp_path))
    assert "by themselves" in embedded.token_hint(Home(path=tmp_path.resolve()))
    elsewhere = Home(path=tmp_path / "other")
    assert f"TILEFARM_DATA_DIR={elsewhere.path}" in embedded.token_hint(elsewhere)
