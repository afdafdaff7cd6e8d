"""How long a role waits for PostgreSQL, which may hang and keep its connections: then no error comes.

Its processes are stopped, its disk does not answer, or the network swallows packets: whoever waits would do
so for ever, or as long as TCP does. So each statement has a time limit on the server, and each wait for an
answer one on this side.
"""

import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.errors import ConnectionTimeout
from sqlalchemy import Engine, event

#: The server's own limit comes first: its answer names the cause, and the connection is kept.
_GRACE_SECS = 2.0
#: Nothing waits longer once the process ends: what stood in rows is there, and what did not is done again.
_LAST_SECS = 2


class Patience:
    """What the connections of one engine share.

    A statement that takes longer than `secs` is ended by the server. One of which nothing is heard for so
    long is given up, and its connection with it: the server may still carry it out. Both raise
    psycopg.OperationalError. Once `ending` is set nothing is waited for longer than two seconds.
    """

    def __init__(self, secs: float, *, ending: threading.Event | None = None) -> None:
        self._secs = secs
        self._ending = threading.Event() if ending is None else ending
        #: Somebody waited in vain, and nobody has connected since.
        self._away = False
        self._trying = threading.Lock()

    def bind(self, engine: Engine) -> None:
        """Every connection that the engine makes from now on has this patience."""

        @event.listens_for(engine, "do_connect")
        def connect(_dialect: Any, _record: Any, args: Any, parameters: Any) -> psycopg.Connection[Any]:
            if self._ending.is_set():
                parameters = {**parameters, "connect_timeout": _LAST_SECS}
            return self._open(lambda: _Connection.connect(*args, **parameters))

    def watch(self, connection: psycopg.Connection[Any], waiting: Generator[Any, Any, Any]) -> Any:
        """The same waiting (psycopg/waiting.py), ended where nothing is heard for too long."""
        heard_at = time.monotonic()
        try:
            wanted = next(waiting)
            while True:
                ready = yield wanted
                if ready:
                    heard_at = time.monotonic()
                elif time.monotonic() - heard_at > self._limit_secs:
                    self._away = True
                    connection.close()
                    raise psycopg.OperationalError("PostgreSQL keeps the connection and does not answer")
                wanted = waiting.send(ready)
        except StopIteration as done:
            return done.value

    @property
    def _limit_secs(self) -> float:
        return _LAST_SECS if self._ending.is_set() else self._secs + _GRACE_SECS

    def _open(self, make: Callable[[], "_Connection"]) -> "_Connection":
        with self._one_at_a_time():
            try:
                connection = make()
                connection.patience = self
                _limit(connection, self._secs)
            except ConnectionTimeout:
                self._away = True
                raise
            self._away = False
            return connection

    @contextmanager
    def _one_at_a_time(self) -> Iterator[None]:
        """While the server is away one tries; the others are told so at once, not after a time-out each."""
        if not self._away:
            yield
            return
        if self._ending.is_set() or not self._trying.acquire(blocking=False):
            raise psycopg.OperationalError("PostgreSQL does not answer; a connection to it is being tried")
        try:
            yield
        finally:
            self._trying.release()


class _Connection(psycopg.Connection[Any]):
    """Waits for each answer as long as its patience lasts."""

    patience: Patience

    def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
        return super().wait(self.patience.watch(self, gen), *args, **options)


def _limit(connection: _Connection, secs: float) -> None:
    """Of a session: one whose process is stopped within a transaction would keep its locks as well."""
    settings = ("statement_timeout", "idle_in_transaction_session_timeout")
    words = ", ".join(f"set_config('{name}', '{round(secs * 1e3)}', false)" for name in settings)
    connection.autocommit = True
    connection.execute(f"SELECT {words}")
    connection.autocommit = False
