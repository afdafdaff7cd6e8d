"""Embedded mode: the whole house on one machine, under one command, without root and without Docker.

The same processes as on a farm: Valkey, API, tuner service and one worker for the local CPU, on SQLite. Its
data directory holds the database, the token and the logs; started again on it, the service goes on.
"""

import asyncio
import json
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx

from services import logs
from services.server import valkey
from services.server.home import EmbeddedError, Home
from services.server.rotating import RotatingLog
from services.server.settings import ServerSettings
from services.server.supervisor import Part, Supervisor
from services.server.worker_token import worker_token

#: The profile under which the local worker's target is found on any machine.
LOCAL_PROFILE = "local"
_POLL_SECS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    host: str
    port: int

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"


def choose_address(host: str, port: int) -> Address:
    """A free port where `port` is 0, else that one, or EmbeddedError where it is taken."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except (OSError, OverflowError) as error:
            reason = error.strerror if isinstance(error, OSError) else "a port is 0 to 65535"
            raise EmbeddedError(f"{host}:{port} cannot be used ({reason}); choose another --port") from error
        return Address(host=host, port=probe.getsockname()[1])


def run(home: Home, settings: ServerSettings, *, host: str, port: int, ready_json: bool) -> int:
    """Run until SIGINT, SIGTERM or SIGHUP; returns the exit code."""

    def log(name: str) -> RotatingLog:
        path = home.logs / f"{name}.log"
        return RotatingLog(path, max_bytes=settings.log_max_bytes, max_files=settings.log_max_files)

    with home.owned(), _socket_dir() as sockets, log("up").opened() as own:
        logs.configure(own)
        address = choose_address(host, port)
        return asyncio.run(_supervise(home, address, sockets / "valkey.sock", log, ready_json=ready_json))


def _stages(
    home: Home,
    address: Address,
    broker: Path,
    log: Callable[[str], RotatingLog],
    prepared: "asyncio.Future[str]",
) -> list[list[Part]]:
    """`prepared` holds the user's token once database, key and tokens are there."""
    shared = {
        "TILEFARM_DATABASE_URL": home.database_url,
        "TILEFARM_BROKER_URL": valkey.url(broker),
        "TILEFARM_HOST": address.host,
        "TILEFARM_PORT": str(address.port),
    }
    worker = {
        "TILEFARM_URL": address.url,
        "TILEFARM_BROKER_URL": valkey.url(broker),
        "TILEFARM_TOKEN": worker_token(home.worker_token_file),
        "TILEFARM_WORK_DIR": str(home.work),
        "TILEFARM_PROFILES": LOCAL_PROFILE,
    }
    server = [sys.executable, "-m", "services.server.cli"]
    broker_part = Part(
        name="valkey",
        command=valkey.command(broker),
        log=log("valkey"),
        ready=lambda: _socket_answers(broker),
    )
    api = Part(
        name="api",
        command=[*server, "api"],
        env=shared,
        log=log("api"),
        after=prepared,
        ready=lambda: _answers(f"{address.url}/readyz"),
    )
    tuner = Part(
        name="tuner",
        command=[*server, "tuner"],
        env=shared | {"TILEFARM_SIGNING_KEY_FILE": str(home.signing_key_file)},
        log=log("tuner"),
        after=prepared,
    )
    # It loads TVM while the database is made and the API starts, and asks for it until it answers.
    local_worker = Part(
        name="worker",
        command=[*server, "worker"],
        env=worker,
        log=log("worker"),
        ready=lambda: _worker_alive(address, prepared),
    )
    # The worker ends first: it gives back what it holds, and leaves the fleet.
    return [[broker_part], [api, tuner, local_worker]]


async def _supervise(
    home: Home, address: Address, broker: Path, log: Callable[[str], RotatingLog], *, ready_json: bool
) -> int:
    prepared = asyncio.ensure_future(asyncio.to_thread(_prepare, home, address.url))
    supervisor = Supervisor(_stages(home, address, broker, log, prepared))
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # Its terminal is closed; `nohup` asks that this be ignored.
        if signal.getsignal(signum) is not signal.SIG_IGN:
            loop.add_signal_handler(signum, supervisor.stop)
    try:
        async with supervisor:
            await _announce(home, address, ready_json=ready_json)
            await supervisor.wait()
            if not ready_json:
                # The terminal may be gone.
                with suppress(OSError):
                    print("\nending …", flush=True)
    except asyncio.CancelledError:
        return 130
    return 0


def _prepare(home: Home, url: str) -> str:
    # Imported by this thread, while the first processes start: it takes as long as they do.
    from services.server.prepare import prepare

    return prepare(home, url)


async def _announce(home: Home, address: Address, *, ready_json: bool) -> None:
    from services.server.tokens import dashboard_link

    token = home.token_file.read_text().strip()
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {token}"}) as client:
        profile = (await client.get(f"{address.url}/v1/targets/{LOCAL_PROFILE}")).raise_for_status().json()
    link = dashboard_link(home.database_url, token=token, base_url=address.url)
    if ready_json:
        ready = {
            "event": "ready",
            "url": address.url,
            "token_file": str(home.token_file),
            "profile": LOCAL_PROFILE,
            "target": profile["target"],
            "dashboard": link,
        }
        print(json.dumps(ready), flush=True)
        return
    target = ", ".join(f"{key}={value}" for key, value in profile["target"].items())
    print(f"tilefarm is up    {address.url}   (API reference: {address.url}/docs)")
    print(f"dashboard         {link}   (works once)")
    print(f"target profile    {LOCAL_PROFILE}   ({target})")
    print(f"token             {home.token_file}   ({token_hint(home)})")
    print(f"logs              {home.logs}")
    print("Ctrl-C ends it; the next start goes on from the same database.", flush=True)


def token_hint(home: Home) -> str:
    if home.path == ServerSettings().embedded_dir().resolve():
        return "the client and the CLI find it by themselves"
    return f"export TILEFARM_DATA_DIR={home.path} tells the client and the CLI"


async def _socket_answers(path: Path) -> None:
    while True:
        try:
            _reader, writer = await asyncio.open_unix_connection(path)
        except (FileNotFoundError, ConnectionRefusedError):
            await asyncio.sleep(_POLL_SECS)
        else:
            writer.close()
            return


async def _answers(url: str) -> None:
    async with httpx.AsyncClient(timeout=2.0) as client:
        while True:
            try:
                if (await client.get(url)).is_success:
                    return
            except httpx.TransportError:
                pass
            await asyncio.sleep(_POLL_SECS)


async def _worker_alive(address: Address, prepared: "asyncio.Future[str]") -> None:
    """The local profile exists and a live worker serves it."""
    headers = {"Authorization": f"Bearer {await prepared}"}
    async with httpx.AsyncClient(timeout=2.0, headers=headers) as client:
        while True:
            try:
                answer = await client.get(f"{address.url}/v1/targets/{LOCAL_PROFILE}")
                if answer.is_success and answer.json()["workers_alive"] > 0:
                    return
            except httpx.TransportError:
                pass
            await asyncio.sleep(_POLL_SECS)


@contextmanager
def _socket_dir() -> Iterator[Path]:
    """A private directory whose path fits a Unix socket's 107 bytes, whatever the data directory's length."""
    path = Path(tempfile.mkdtemp(prefix="tilefarm-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
