"""A server that vanishes without a word is noticed within a minute, not by the system's own two hours."""

import pytest
from sqlalchemy import Engine, text

from db.session import connect


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
    assert (told["tcp_user_timeout"], told["connect_timeout"]) == ("7000", "10")


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_sqlite_is_told_nothing_of_networks(engine: Engine) -> None:
    with engine.connect() as connection:
        assert connection.execute(text("PRAGMA foreign_keys")).scalar_one() == 1
