"""Engines. Commit only at the edge: `with transaction(engine) as session:` is one request or one step.

On SQLite every transaction is BEGIN IMMEDIATE with a busy timeout, so that a read is never upgraded to a
write half-way; no child process is waited for inside one.
"""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Engine, ExceptionContext, create_engine, event, make_url
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

_SQLITE_BUSY_SECS = 30
#: A server that vanishes without a word (its host lost power, its address moved) is given up on after half a
#: minute; the system's own patience is two hours, with a thread and a connection each. The URL goes before.
_POSTGRESQL_NETWORK: dict[str, int | str] = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 4,
    "tcp_user_timeout": 30_000,
    # A database that was made under the locale C knows no encoding: its texts would be bytes.
    "client_encoding": "utf8",
}
#: What psycopg counts among errors of the server itself, and passes: it only reads (a standby after a
#: fail-over), or has ended an idle transaction.
_FOR_NOW = frozenset({"25006", "25P03"})


def connect(
    url: str,
    *,
    pool_size: int = 10,
    timeout_secs: float | None = None,
    ending: threading.Event | None = None,
) -> Engine:
    """An engine for `sqlite:///path` or `postgresql+psycopg://…`.

    `timeout_secs` of a statement on PostgreSQL (None: it may take as long as it likes) and `ending`, by which
    what waits gives up within seconds, are as in db/patience.py.
    """
    if url.startswith("sqlite"):
        engine = create_engine(url, connect_args={"timeout": _SQLITE_BUSY_SECS, "check_same_thread": False})
        event.listen(engine, "connect", _set_sqlite_pragmas)
        event.listen(engine, "begin", _begin_immediate)
        return engine
    said = make_url(url).query
    network = {name: value for name, value in _POSTGRESQL_NETWORK.items() if name not in said}
    engine = create_engine(
        url, pool_size=pool_size, max_overflow=pool_size, pool_pre_ping=True, connect_args=network
    )
    event.listen(engine, "handle_error", _away_for_now)
    if timeout_secs is not None:
        # Loaded where there is a PostgreSQL: the embedded service starts without its driver.
        from db.patience import Patience

        Patience(timeout_secs, ending=ending).bind(engine)
    return engine


@contextmanager
def transaction(engine: Engine) -> Iterator[Session]:
    """One transaction: commits at the end, rolls back on an exception."""
    with Session(engine, expire_on_commit=False) as session, session.begin():
        yield session


@contextmanager
def reading(engine: Engine) -> Iterator[Session]:
    """A transaction that only reads; on SQLite it takes no write lock.

    On PostgreSQL each statement stands alone: read committed promises no more, and costs two round trips.
    """
    options = (
        {"sqlite_begin": "DEFERRED"} if engine.dialect.name == "sqlite" else {"isolation_level": "AUTOCOMMIT"}
    )
    with engine.connect() as connection:
        reader = connection.execution_options(**options)
        with reader.begin(), Session(bind=reader) as session:
            yield session


def _away_for_now(context: ExceptionContext) -> OperationalError | None:
    """As any server that is away; the pool connects anew, where another one may stand meanwhile."""
    if getattr(context.original_exception, "sqlstate", None) not in _FOR_NOW:
        return None
    context.is_disconnect = True
    return OperationalError(context.statement, context.parameters, context.original_exception)


def _set_sqlite_pragmas(connection: sqlite3.Connection, _record: Any) -> None:
    connection.isolation_level = None
    for pragma in ("journal_mode = WAL", "synchronous = NORMAL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_immediate(connection: Any) -> None:
    mode = connection.get_execution_options().get("sqlite_begin", "IMMEDIATE")
    connection.exec_driver_sql(f"BEGIN {mode}")
