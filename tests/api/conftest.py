"""An API on a fresh database, with the real fork server behind its intake."""

import socket
import threading
import time
from collections.abc import Iterator

import httpx
import pytest
import uvicorn
from fastapi import FastAPI
from sqlalchemy import Engine

from checks.target import canonical, key
from db.profiles import store_profile
from db.session import transaction
from db.targets import store_target
from db.tokens import SCOPES, create_token
from sandbox.fork_server import ForkServer
from services.api.app import attach, create_app
from services.api.intake import PRELOAD
from services.api.settings import ApiSettings
from tests.checks import modules

TARGET = canonical({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2})


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    with ForkServer(PRELOAD) as server:
        yield server


@pytest.fixture
def settings(database_url) -> ApiSettings:
    return ApiSettings(database_url=database_url, events_poll_secs=0.02, events_heartbeat_secs=0.2)


@pytest.fixture(scope="session")
def service(fork_server) -> Iterator[tuple[FastAPI, str]]:
    """The app behind a real server on a free loopback port; each test attaches it to its own database."""
    app = create_app(ApiSettings(database_url="sqlite://"), spawning=fork_server)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.002)
        yield app, f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        thread.join()


@pytest.fixture
def app(service, settings, fork_server) -> Iterator[FastAPI]:
    app, _ = service
    app.state.engine.dispose()
    attach(app, settings, fork_server)
    yield app
    app.state.engine.dispose()


@pytest.fixture
def tokens(engine: Engine) -> dict[str, str]:
    """A token by name: alice and bob submit, consumer looks up, worker measures, root is an administrator."""
    scopes = {
        "alice": ["jobs:read", "jobs:write", "records:read"],
        "bob": ["jobs:read", "jobs:write"],
        "consumer": ["records:read"],
        "importer": ["records:import"],
        "worker": ["worker"],
        "other-worker": ["worker"],
        "root": ["admin"],
        "nobody": [],
    }
    assert {scope for each in scopes.values() for scope in each} <= set(SCOPES)
    with transaction(engine) as session:
        return {name: create_token(session, name, scopes=each) for name, each in scopes.items()}


@pytest.fixture
def api(service, app, tokens) -> Iterator["Caller"]:
    """Calls as alice, unless told otherwise."""
    with httpx.Client(base_url=service[1], timeout=60, verify=False) as client:
        yield Caller(client, tokens)


@pytest.fixture
def profile(engine) -> str:
    """A profile's name, for TARGET."""
    with transaction(engine) as session:
        target = store_target(session, TARGET, key=key(TARGET))
        store_profile(session, "local", target_id=target.id)
    return "local"


class Caller:
    """The HTTP client with a token by name."""

    def __init__(self, client: httpx.Client, tokens: dict[str, str]) -> None:
        self.client = client
        self.tokens = tokens

    def __call__(self, method: str, path: str, *, as_: str | None = "alice", **kwargs) -> httpx.Response:
        headers = dict(kwargs.pop("headers", {}))
        if as_ is not None:
            headers["Authorization"] = f"Bearer {self.tokens[as_]}"
        return self.client.request(method, path, headers=headers, **kwargs)

    def submit(
        self, *, module: str = "matmul_relu", as_: str = "alice", headers=None, **fields
    ) -> httpx.Response:
        body = {"module": modules.graph(module), "target": TARGET, "max_trials": 64, **fields}
        return self("POST", "/v1/jobs", as_=as_, json=body, headers=headers or {})

    def join(self, *, as_: str = "worker", **fields) -> httpx.Response:
        body = {
            "name": "here:cpu0", "host": "here", "device": "cpu0", "device_class": "test-cpu/2",
            "target": TARGET, "profiles": ["local"], "cores": 2, "memory_bytes": 1 << 30,
            "tvm_version": "0.27.0.post1",
        }  # fmt: skip
        return self("POST", "/v1/workers:join", as_=as_, json={**body, **fields})


def problem(response: httpx.Response, status: int) -> dict:
    """The response is a problem with this status; its code and entries."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body = response.json()
    assert body["status"] == status
    assert body["type"].startswith("https://tilefarm.dev/problems/")
    body["code"] = body["type"].rpartition("/")[2]
    return body
