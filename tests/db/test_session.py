"""A server that vanishes without a word is noticed within a minute, not by the system's own two hours."""

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import OperationalError

from db.session import connect, transaction


def _parameters(engine: Engine) -> dict[str, str]:
    connection = engine.raw_connection()
    try:
        parameters: dict[str, str] = connection.driver_connection.info.get_parameters()  # type: ignore[union-attr]
    finally:
        connection.close()
    return parameters


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_silent_server_is_given_up_on_unless_the_url_says_when(database_url: str) -> None:
    engine = connect(database_url)
    told = _parameters(engine)
    engine.dispose()
    assert int(told["tcp_user_timeout"]) <= 60_000
    silent_secs = int(told["keepalives_idle"]) + int(told["keepalives_interval"]) * int(
        told["keepalives_count"]
    )
    assert silent_secs <= 60
    assert int(told["connect_timeout"]) <= 30
    engine = connect(f"{database_url}&tcp_user_timeout=7000")
    told = _parameters(engine)
    engine.dispose()
    assert (told["tcp_user_timeout"], told["connect_timeout"]) == ("7000", "5")


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_server_that_only_reads_is_away_and_looked_for_anew(engine: Engine) -> None:
    """A standby after a fail-over answers as ever: a connection to it, once kept, would be kept for ever."""
    write = text("INSERT INTO owners (name, weight) VALUES ('alice', 2)")
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        name = connection.execute(text("SELECT current_database()")).scalar_one()
        connection.execute(text(f"ALTER DATABASE {name} SET default_transaction_read_only = on"))
    engine.dispose()
    for _ in range(2):
        with pytest.raises(OperationalError, match="read-only"), transaction(engine) as session:
            session.execute(write)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("SET default_transaction_read_only = off"))
        connection.execute(text(f"ALTER DATABASE {name} RESET default_transaction_read_only"))
        connection.execute(text("SET default_transaction_read_only = on"))
    with pytest.raises(OperationalError, match="read-only"), transaction(engine) as session:
        session.execute(write)
    with transaction(engine) as session:
        session.execute(write)


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_texts_are_texts_in_a_database_that_knows_no_encoding(engine: Engine) -> None:
    """As `initdb` makes it under the locale C."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("CREATE DATABASE plain ENCODING 'SQL_ASCII' TEMPLATE template0"))
    plain = connect(engine.url.set(database="plain").render_as_string(hide_password=False))
    with plain.connect() as connection:
        assert connection.execute(text("SHOW server_encoding")).scalar_one() == "SQL_ASCII"
        assert connection.execute(text("SELECT 'µs' || :more"), {"more": "é"}).scalar_one() == "µsé"
    plain.dispose()


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_sqlite_is_told_nothing_of_networks(engine: Engine) -> None:
    with engine.connect() as connection:
        assert connection.execute(text("PRAGMA foreign_keys")).scalar_one() == 1
