"""A PostgreSQL that hangs, really: all of its processes are stopped, and its connections stay open."""

import threading
import time
from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from db.session import connect, reading, transaction
from tests.servers import Postgres, short_dir, stopped

ONE = text("SELECT 1")


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with short_dir() as home:
        server = Postgres(home).create().start()
        try:
            yield server
        finally:
            server.end()


def ask(engine: Engine) -> int:
    with reading(engine) as session:
        return int(session.execute(ONE).scalar_one())


def refused_after(engine: Engine) -> float:
    """Seconds until a statement fails as one on a server that is away."""
    began = time.monotonic()
    with pytest.raises(OperationalError), transaction(engine) as session:
        session.execute(ONE)
    return time.monotonic() - began


def test_a_server_that_hangs_is_given_up_on_and_found_again(postgres: Postgres) -> None:
    engine = connect(postgres.url(), timeout_secs=1)
    assert ask(engine) == 1
    with engine.connect() as held, stopped(postgres):
        # Within a transaction, where no connection is looked at before.
        began = time.monotonic()
        with pytest.raises(OperationalError, match="does not answer"):
            held.execute(ONE)
        assert 2.5 < time.monotonic() - began < 9
        # No other finds a connection; it takes the time of a new one.
        assert refused_after(engine) < 10
    assert ask(engine) == 1
    engine.dispose()


def test_while_it_is_away_one_tries_and_the_others_are_told_at_once(postgres: Postgres) -> None:
    engine = connect(postgres.url(), timeout_secs=1)
    with stopped(postgres):
        refused_after(engine)
        trying = threading.Thread(target=refused_after, args=(engine,))
        trying.start()
        time.sleep(0.3)
        assert refused_after(engine) < 0.5
        assert trying.is_alive()
        trying.join()
    deadline = time.monotonic() + 10
    while True:
        try:
            assert ask(engine) == 1
            break
        except OperationalError:
            assert time.monotonic() < deadline
    engine.dispose()


def test_once_the_process_ends_nothing_waits_longer_than_seconds(postgres: Postgres) -> None:
    ending = threading.Event()
    engine = connect(postgres.url(), timeout_secs=600, ending=ending)
    assert ask(engine) == 1
    with stopped(postgres):
        waiting = threading.Thread(target=refused_after, args=(engine,))
        waiting.start()
        time.sleep(0.5)
        assert waiting.is_alive()
        ending.set()
        waiting.join(5)
        assert not waiting.is_alive()
        assert refused_after(engine) < 0.5
        other = connect(postgres.url(), timeout_secs=600, ending=ending)
        assert refused_after(other) < 4
        other.dispose()
    engine.dispose()


def test_a_statement_that_takes_too_long_is_ended_by_the_server_and_its_connection_is_kept(
    postgres: Postgres,
) -> None:
    engine = connect(postgres.url(), pool_size=1, timeout_secs=1)
    with reading(engine) as session:
        backend = session.execute(text("SELECT pg_backend_pid()")).scalar_one()
    with pytest.raises(OperationalError, match="statement timeout"), transaction(engine) as session:
        session.execute(text("SELECT pg_sleep(60)"))
    with reading(engine) as session:
        assert session.execute(text("SELECT pg_backend_pid()")).scalar_one() == backend
    engine.dispose()


def fall_silent_with_a_lock(engine: Engine, first: Session) -> None:
    """Raises OperationalError once another has the lock, and the first goes on."""
    first.execute(text("LOCK TABLE held"))
    deadline = time.monotonic() + 10
    taken = False
    while not taken:
        try:
            with transaction(engine) as second:
                second.execute(text("LOCK TABLE held"))
            taken = True
        except OperationalError:
            assert time.monotonic() < deadline
    first.execute(ONE)


def test_who_falls_silent_within_a_transaction_keeps_no_locks(postgres: Postgres) -> None:
    """A replica whose process is stopped; when it goes on, the database was away for it."""
    engine = connect(postgres.url(), timeout_secs=1)
    with transaction(engine) as session:
        session.execute(text("CREATE TABLE held (id int PRIMARY KEY)"))
    with pytest.raises(OperationalError), transaction(engine) as first:
        fall_silent_with_a_lock(engine, first)
    engine.dispose()


def test_without_a_time_limit_a_statement_may_take_as_long_as_it_likes(postgres: Postgres) -> None:
    """A migration, and whatever else is a command and no service."""
    engine = connect(postgres.url())
    with reading(engine) as session:
        assert session.execute(text("SHOW statement_timeout")).scalar_one() == "0"
    engine.dispose()
