"""A farm of plain processes on PostgreSQL and Valkey from their wheels, for benchmarks of its size."""

import contextlib
import json
import os
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psycopg

from tests.servers import Postgres, Valkey, short_dir
from tests.system.modules import module_json
from tests.system.roles import Roles

_READY_SECS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainFarm:
    roles: Roles
    postgres: Postgres
    valkey: Valkey
    http: httpx.Client
    url: str
    #: Of a user with every right, and of a worker.
    token: str
    worker_token: str
    #: For further processes of the farm.
    env: dict[str, str]
    #: Of its database, as libpq reads it.
    dsn: str

    def submit(self, module: str, **fields: Any) -> dict[str, Any]:
        """A job of one of the classroom's modules for the target `local`."""
        body = {"name": module, "module": json.loads(module_json(module)), "target": "local", **fields}
        job: dict[str, Any] = self.http.post("/v1/jobs", json=body).raise_for_status().json()
        return job

    def database_now(self) -> Any:
        with psycopg.connect(self.dsn) as connection:
            row = connection.execute("SELECT clock_timestamp()").fetchone()
        assert row is not None
        return row[0]


@contextmanager
def plain_farm(*, roles: Sequence[str], **settings: str) -> Iterator[PlainFarm]:
    """Roles that run until the end; settings are TILEFARM_ variables, in lower case without the prefix."""
    with short_dir() as home, contextlib.ExitStack() as stack:
        postgres = Postgres(home, "shared_buffers=512MB", "jit=off").create().start()
        stack.callback(postgres.end)
        valkey = Valkey(home).start()
        stack.callback(valkey.end)
        (home / "work").mkdir()
        env, url = _environment(home, postgres, valkey, settings)
        running = Roles(home, env)
        running.command("db", "upgrade")
        token = running.command("token", "create", "user", "--scope", "admin").split()[-1]
        worker_token = running.command("token", "create", "worker", "--scope", "worker").split()[-1]
        env["TILEFARM_TOKEN"] = worker_token
        running = Roles(home, env)
        stack.callback(running.stop)
        for role in roles:
            running.start(role)
        headers = {"Authorization": f"Bearer {token}"}
        http = stack.enter_context(httpx.Client(base_url=url, headers=headers, timeout=60.0))
        _wait_until_ready(http)
        yield PlainFarm(
            roles=running,
            postgres=postgres,
            valkey=valkey,
            http=http,
            url=url,
            token=token,
            worker_token=worker_token,
            env={**os.environ, **env},
            dsn=postgres.dsn(),
        )


def _environment(
    home: Path, postgres: Postgres, valkey: Valkey, settings: dict[str, str]
) -> tuple[dict[str, str], str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    env = {
        "DATABASE_URL": postgres.url(),
        "BROKER_URL": valkey.url,
        "PORT": str(port),
        "URL": url,
        "WORK_DIR": str(home / "work"),
        **{name.upper(): value for name, value in settings.items()},
    }
    # TVM binds the thread that starts its pool to one core, and all that is started here would inherit that.
    os.environ["TVM_BIND_THREADS"] = "0"
    return {f"TILEFARM_{name}": value for name, value in env.items()}, url


def _wait_until_ready(http: httpx.Client) -> None:
    deadline = time.monotonic() + _READY_SECS
    while time.monotonic() < deadline:
        with contextlib.suppress(httpx.TransportError):
            if http.get("/readyz").is_success:
                return
        time.sleep(0.1)
    raise RuntimeError("the farm did not come up")
