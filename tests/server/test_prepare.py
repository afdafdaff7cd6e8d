"""What an embedded service makes before its API starts, and what it says where that is of no use."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Engine

from db.session import connect, reading, transaction
from db.tokens import find_token, list_tokens, revoke_token
from services.server.home import EmbeddedError, Home
from services.server.prepare import prepare
from services.server.worker_token import worker_token

URL = "http://127.0.0.1:1"


@contextmanager
def database(home: Home) -> Iterator[Engine]:
    engine = connect(home.database_url)
    yield engine
    engine.dispose()


def test_it_may_be_prepared_again_and_again(tmp_path: Path) -> None:
    home = Home(path=tmp_path)
    token = prepare(home, URL)
    assert prepare(home, URL) == token
    assert json.loads(home.connection_file.read_text()) == {"url": URL, "token": token}
    with database(home) as engine, reading(engine) as session:
        assert [known.name for known in list_tokens(session)] == ["local", "local-worker"]
        worker = find_token(session, worker_token(home.worker_token_file))
    assert worker is not None
    assert worker.scopes == {"worker"}
    assert {file.stat().st_mode & 0o777 for file in (home.token_file, home.worker_token_file)} == {0o600}


def test_a_workers_token_that_was_revoked_is_said_to_be_of_no_use(tmp_path: Path) -> None:
    home = Home(path=tmp_path)
    prepare(home, URL)
    with database(home) as engine, transaction(engine) as session:
        assert revoke_token(session, "local-worker")
    with pytest.raises(EmbeddedError, match=r"worker-token is of no use.*revoked.*move it away"):
        prepare(home, URL)
    home.worker_token_file.unlink()
    prepare(home, URL)
    with database(home) as engine, reading(engine) as session:
        assert find_token(session, worker_token(home.worker_token_file)) is not None
