"""`tilefarm-server token adopt`: a secret that an orchestrator made becomes a token, however often asked."""

import secrets

import pytest

from db.migrate import upgrade
from db.session import connect, reading
from db.tokens import find_token
from services.server.cli import main


@pytest.fixture
def database(tmp_path, monkeypatch) -> str:
    url = f"sqlite:///{tmp_path / 'tilefarm.db'}"
    monkeypatch.setenv("TILEFARM_DATABASE_URL", url)
    upgrade(url)
    return url


def adopt(path, name: str = "workers", scope: str = "worker") -> int:
    return main(["token", "adopt", name, "--scope", scope, "--file", str(path)])


def test_a_secret_is_adopted_once_and_works(database, tmp_path, capsys):
    secret = secrets.token_hex(32)
    path = tmp_path / "worker_token"
    path.write_text(secret + "\n")
    assert (adopt(path), adopt(path)) == (0, 0)
    assert capsys.readouterr().out.splitlines() == ["workers: adopted", "workers: known already"]
    engine = connect(database)
    with reading(engine) as session:
        token = find_token(session, secret)
    engine.dispose()
    assert token is not None
    assert (token.name, token.scopes) == ("workers", {"worker"})


def test_a_known_secret_gets_no_second_name_and_no_further_scope(database, tmp_path, capsys):
    path = tmp_path / "token"
    path.write_text(secrets.token_hex(32))
    assert adopt(path) == 0
    assert (adopt(path, name="other"), adopt(path, scope="admin")) == (2, 2)
    other = tmp_path / "other"
    other.write_text(secrets.token_hex(32))
    assert adopt(other) == 2
    assert "there is a token 'workers' already" in capsys.readouterr().err


def test_a_revoked_secret_does_not_come_back(database, tmp_path, capsys):
    path = tmp_path / "token"
    path.write_text(secrets.token_hex(32))
    assert (adopt(path), main(["token", "revoke", "workers"]), adopt(path)) == (0, 0, 2)
    assert "was revoked" in capsys.readouterr().err


@pytest.mark.parametrize("content", [None, b"short", b"\xff" * 40, b"two words " * 10, b"two\nlines" * 10])
def test_a_file_without_a_secret_is_refused(database, tmp_path, capsys, content):
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
    assert adopt(path) == 2
    assert str(path) in capsys.readouterr().err
