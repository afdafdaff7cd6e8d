"""A farm of real processes on PostgreSQL and Valkey, each of which can be killed, stopped and restarted."""

import contextlib
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.chaos.audit import Audit
from tests.chaos.proxy import Proxy
from tests.servers import Postgres, Valkey, short_dir
from tests.system.modules import body
from tests.system.roles import Roles, is_fork_server
from tests.system.service import Service

_READY_SECS = 90.0
#: Of the small file systems that are filled.
_SMALL_DISK = "size=320m"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """How a farm differs from an ordinary one; faults of equal setups share a farm."""

    #: Roles whose broker is behind the proxy.
    proxied: frozenset[str] = frozenset()
    #: Roles whose PostgreSQL is behind a proxy of its own.
    database_proxied: frozenset[str] = frozenset()
    #: Roles whose API is behind a proxy of its own.
    api_proxied: frozenset[str] = frozenset()
    #: Every message through the broker's proxy is sent three times, in any order.
    tripled: bool = False
    #: PostgreSQL's data, or the workers' directory, lies on a small file system.
    small_disk: str = ""
    postgres_options: tuple[str, ...] = ()
    #: Roles that the farm starts with.
    roles: tuple[str, ...] = ("api", "tuner", "worker")


@dataclass(kw_only=True)
class Farm:
    setup: Setup
    home: Path
    #: The name of its database.
    database: str
    postgres: Postgres
    valkey: Valkey
    #: Before the broker.
    proxy: Proxy
    database_proxy: Proxy
    api_proxy: Proxy
    roles: Roles
    service: Service
    audit: Audit
    #: Resident bytes of the worker and of its fork server when it had measured its first job.
    worker_bytes: int = 0
    _names: Iterator[int] = field(default_factory=lambda: iter(range(1_000_000)))

    @property
    def lock(self) -> Path:
        """The lock of the device: held while a candidate is timed."""
        return next((self.home / "locks").glob("*.lock"))

    @property
    def small_disk(self) -> Path:
        return self.home / "small"

    def submit(self, module: str = "mm_relu", *, trials: int = 48) -> dict[str, Any]:
        """A job in a search of its own."""
        options = {"isolation_key": f"chaos-{next(self._names)}"}
        return self.service.submit(body(module, max_trials=trials, options=options))

    def wait_done(self, job_id: str, count: int, *, timeout_secs: float = 60.0) -> None:
        """Until so many trials of a job are done, as the rows say."""
        deadline = time.monotonic() + timeout_secs
        while self.audit.done(job_id) < count:
            if time.monotonic() > deadline:
                raise AssertionError(f"{count} trials were not done within {timeout_secs} s")
            time.sleep(0.02)

    def count_events(self, name: str, event: str) -> int:
        """How often a role's log has an event."""
        return self.roles.log(name).read_text().count(f'"event": "{event}"')

    def start(self, name: str, **env: str) -> None:
        role = name.partition("-")[0]
        if role in self.setup.proxied:
            env = {"TILEFARM_BROKER_URL": f"redis://127.0.0.1:{self.proxy.port}/0", **env}
        if role in self.setup.database_proxied:
            url = f"postgresql+psycopg://postgres@127.0.0.1:{self.database_proxy.port}/{self.database}"
            env = {"TILEFARM_DATABASE_URL": url, **env}
        if role in self.setup.api_proxied:
            env = {"TILEFARM_URL": f"http://127.0.0.1:{self.api_proxy.port}", **env}
        self.roles.start(name, **env)

    def restart(self, name: str) -> None:
        self.roles.kill(name)
        self.start(name)

    def resident_bytes(self) -> int:
        """Of the worker and its fork server; candidates' children, which come and go, do not count."""
        worker = self.roles.tree("worker")[0]
        servers = [child for child in worker.children() if is_fork_server(child)]
        return sum(process.memory_info().rss for process in [worker, *servers])


@contextmanager
def running(setup: Setup) -> Iterator[Farm]:
    """A farm that serves; at its end no process of it is left."""
    with short_dir() as home, contextlib.ExitStack() as stack:
        if setup.small_disk:
            stack.enter_context(_small_disk(home / "small"))
        base = home / "small" if setup.small_disk == "postgres" else home
        postgres = Postgres(base, *setup.postgres_options).create().start()
        stack.callback(postgres.end)
        valkey = Valkey(home, port=free_port()).start()
        stack.callback(valkey.end)
        farm = _make(setup, home, postgres, valkey)
        for proxy in (farm.proxy, farm.database_proxy, farm.api_proxy):
            stack.callback(proxy.close)
        try:
            for role in setup.roles:
                farm.start(role)
            _wait_until_served(farm.service, worker="worker" in setup.roles)
            yield farm
        except BaseException:
            keep_logs(home)
            raise
        finally:
            farm.roles.stop()


def _make(setup: Setup, home: Path, postgres: Postgres, valkey: Valkey) -> Farm:
    name = f"farm_{uuid.uuid4().hex[:8]}"
    url = f"http://127.0.0.1:{(port := free_port())}"
    audit = Audit(postgres.dsn(name), admin_dsn=postgres.dsn())
    audit.create_database(name)
    work = home / "small" / "work" if setup.small_disk == "worker" else home / "work"
    env = {
        "TILEFARM_DATABASE_URL": postgres.url(name),
        "TILEFARM_BROKER_URL": valkey.url,
        "TILEFARM_PORT": str(port),
        "TILEFARM_URL": url,
        "TILEFARM_PROFILES": "local",
        "TILEFARM_WORK_DIR": str(work),
        "TILEFARM_LOCK_DIR": str(home / "locks"),
        "TILEFARM_WORKER_SELFTEST_SECS": "0",
    }
    roles = Roles(home, env)
    roles.command("db", "upgrade")
    audit.install()
    user = roles.command("token", "create", "user", "--scope", "admin").split()[-1]
    worker = roles.command("token", "create", "worker", "--scope", "worker").split()[-1]
    return Farm(
        setup=setup,
        home=home,
        database=name,
        postgres=postgres,
        valkey=valkey,
        proxy=Proxy(valkey.socket, tripled=setup.tripled),
        database_proxy=Proxy(postgres.data.parent / ".s.PGSQL.5432"),
        api_proxy=Proxy(port),
        roles=Roles(home, {**env, "TILEFARM_TOKEN": worker}),
        service=Service(process=None, url=url, token=user, target={}, data_dir=home),
        audit=audit,
    )


def _wait_until_served(service: Service, *, worker: bool) -> None:
    deadline = time.monotonic() + _READY_SECS
    path = "/v1/targets/local" if worker else "/v1/jobs"
    while time.monotonic() < deadline:
        with contextlib.suppress(httpx.TransportError, AssertionError):
            answer = service.get(path)
            if not worker or answer["workers_alive"] > 0:
                return
        time.sleep(0.1)
    raise AssertionError("the farm did not come up")


@contextmanager
def _small_disk(path: Path) -> Iterator[None]:
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", _SMALL_DISK, "tmpfs", str(path)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


def keep_logs(home: Path) -> None:
    """Copies that outlive the farm: they tell why a row went wrong."""
    kept = Path(tempfile.mkdtemp(prefix="tilefarm-chaos-"))
    for log in home.rglob("*.log"):
        shutil.copy(log, kept)
    print(f"the logs are in {kept}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
