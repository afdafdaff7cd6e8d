"""Fixtures that every room's tests share: a fresh database on both engines, and a broker."""

import inspect
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import structlog
from sqlalchemy import Engine, make_url

import db.caller_tables
import db.farm_tables  # noqa: F401 - both complete the metadata
from db.session import connect
from db.tables import Row
from tests.servers import run_postgres, run_valkey
from tuner.tvm_light import quick_stack

_ON_THE_DEVICE = frozenset({"system", "workers"})
_DEVICE = "device"

# To draw tracebacks as rich does took a sixth of the tests of lost messages, and those that pass show none.
structlog.configure(
    processors=[
        *structlog.get_config()["processors"][:-1],
        structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback),
    ]
)

# The parser of the programs that tests write down asks for it at each function, half a collection's time.
inspect.stack = quick_stack

# TVM's thread pool binds the thread that starts it to one core, and every process that the tests start later
# would inherit that: a worker would find a device of one core.
os.environ["TVM_BIND_THREADS"] = "0"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Under `-n 2 --dist loadgroup`: what measures stays together, one at a time; else a file stays together.

    The first group owns the device: two workers that time at once on the same cores would time each other. It
    is the longest, and starts first (`--no-loadscope-reorder`). pytest-xdist reads groups in this same hook.
    """
    here = Path(__file__).parent
    for item in items:
        room = item.path.relative_to(here).parts[0]
        group = _DEVICE if room in _ON_THE_DEVICE else str(item.path.relative_to(here))
        item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=lambda item: item.get_closest_marker("xdist_group").args[0] != _DEVICE)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Raises pytest.UsageError where pytest-xdist has not taken the groups: it does so in silence."""
    if session.config.getoption("loadgroup", default=False):
        for item in session.items:
            if "@" not in item.nodeid.rpartition("::")[2]:
                raise pytest.UsageError(f"pytest-xdist does not see the group of {item.nodeid}")


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Bytes are called by their argument: what two workers compress a second apart, as gzip does, differs."""
    return argname if isinstance(val, bytes) else None


@pytest.fixture(scope="session", autouse=True)
def client_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What clients keep on disk in a run of the tests stays apart from this user's own."""
    os.environ["TILEFARM_CACHE_DIR"] = str(tmp_path_factory.mktemp("client-cache"))


@pytest.fixture(scope="session")
def valkey_url() -> Iterator[str]:
    """The broker URL of a real Valkey server."""
    with run_valkey() as url:
        yield url


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The URL of a real PostgreSQL server's `postgres` database."""
    with run_postgres() as url:
        yield url


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sqlite") / "template.db"
    engine = connect(f"sqlite:///{path}")
    Row.metadata.create_all(engine)
    with engine.connect() as connection:
        connection.exec_driver_sql("COMMIT")
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.exec_driver_sql("BEGIN")
    engine.dispose()
    return path


@pytest.fixture(scope="session")
def postgres_template(postgres_url: str) -> str:
    _admin(postgres_url, "CREATE DATABASE tilefarm_template")
    engine = connect(_database(postgres_url, "tilefarm_template"))
    Row.metadata.create_all(engine)
    engine.dispose()
    return postgres_url


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a fresh database with all tables; each test runs on SQLite and on PostgreSQL."""
    if request.param == "sqlite":
        path = tmp_path / "tilefarm.db"
        shutil.copy(request.getfixturevalue("sqlite_template"), path)
        yield f"sqlite:///{path}"
        return
    server = request.getfixturevalue("postgres_template")
    name = f"t_{uuid.uuid4().hex}"
    _admin(server, f"CREATE DATABASE {name} TEMPLATE tilefarm_template STRATEGY FILE_COPY")
    yield _database(server, name)
    _admin(server, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a fresh database without tables, for migrations."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'tilefarm.db'}"
        return
    server = request.getfixturevalue("postgres_url")
    name = f"e_{uuid.uuid4().hex}"
    _admin(server, f"CREATE DATABASE {name}")
    yield _database(server, name)
    _admin(server, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    """An engine on a fresh database with all tables."""
    engine = connect(database_url)
    yield engine
    engine.dispose()


def _database(url: str, name: str) -> str:
    return make_url(url).set(database=name).render_as_string(hide_password=False)


def _admin(url: str, statement: str) -> None:
    dsn = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(statement)
