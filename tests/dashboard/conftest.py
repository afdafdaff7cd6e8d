"""The real app on SQLite, asked as a browser asks it; submissions are answered by a small fork server."""

import json
import re
import shutil
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
from db.browser_keys import KeyKind, make_key
from db.jobs import NewJob, insert_job
from db.session import transaction
from db.targets import store_target
from db.tasks import NewTask, SearchKey, find_or_make_search, insert_task
from db.tokens import create_token, find_token
from db.workloads import NewWorkload, store_workload
from services.api.app import attach, create_app
from services.api.settings import ApiSettings
from tests.api.rows import set_job

TARGET = canonical({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2})
SCOPES = {
    "alice": ["jobs:read", "jobs:write", "records:read"],
    "bob": ["jobs:read", "jobs:write", "records:read"],
    "root": ["admin"],
    "consumer": ["records:read"],
}


class NoChildren:
    """A fork server of tests that submit nothing."""

    def spawn(self, entry, *, limits):  # noqa: ARG002 - as the fork server has it
        raise AssertionError(f"nothing here needs {entry}")


@pytest.fixture
def database_url(sqlite_template, tmp_path) -> str:
    shutil.copy(sqlite_template, tmp_path / "tilefarm.db")
    return f"sqlite:///{tmp_path / 'tilefarm.db'}"


@pytest.fixture(scope="session")
def service() -> Iterator[tuple[FastAPI, str]]:
    """The app behind a real server on a free loopback port; each test attaches it to its own database."""
    app = create_app(ApiSettings(database_url="sqlite://"), spawning=NoChildren())
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
def app(service, database_url) -> Iterator[FastAPI]:
    app, _ = service
    app.state.engine.dispose()
    settings = ApiSettings(database_url=database_url, events_poll_secs=0.02, events_heartbeat_secs=0.2)
    attach(app, settings, NoChildren())
    yield app
    app.state.engine.dispose()


@pytest.fixture
def tokens(engine) -> dict[str, str]:
    with transaction(engine) as session:
        return {name: create_token(session, name, scopes=scopes) for name, scopes in SCOPES.items()}


@pytest.fixture
def browse(app, service, engine, tokens) -> Iterator["Browsers"]:
    del app
    browsers = Browsers(service[1], engine, tokens)
    yield browsers
    browsers.close()


class Browsers:
    """A browser by the name of its token, with its cookie."""

    def __init__(self, url, engine, tokens) -> None:
        self.url, self._engine, self._tokens = url, engine, tokens
        self._clients: list[httpx.Client] = []

    def __call__(self, name: str | None = "alice", *, read_only: bool = False) -> "Browser":
        client = httpx.Client(base_url=self.url, timeout=30, verify=False)
        self._clients.append(client)
        if name is not None:
            response = client.post("/session", json={"link": self.link(name, read_only=read_only)})
            assert response.status_code == 204, response.text
        return Browser(client)

    def link(self, name: str, *, read_only: bool = False, lifetime_secs: float = 60.0) -> str:
        with transaction(self._engine) as session:
            token = find_token(session, self._tokens[name])
            return make_key(
                session, token.id, kind=KeyKind.LINK, lifetime_secs=lifetime_secs, read_only=read_only
            )

    def close(self) -> None:
        for client in self._clients:
            client.close()


class Browser:
    def __init__(self, client: httpx.Client) -> None:
        self.client = client

    def get(self, path: str) -> httpx.Response:
        return self.client.get(path)

    def page(self, path: str) -> str:
        response = self.get(path)
        assert response.status_code == 200, response.text
        return response.text

    def post(self, path: str, body: dict, *, csrf: str | None = None) -> httpx.Response:
        if csrf is None:
            csrf = re.search(r'name="csrf" content="(\w+)"', self.page("/")).group(1)
        return self.client.post(path, json=body, headers={"X-CSRF-Token": csrf})


@pytest.fixture
def farm(engine) -> "Rows":
    return Rows(engine)


class Rows:
    """Writes the rows that the API and the tuner service would have written."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._number = 0

    def job(
        self,
        name: str = "mm",
        *,
        owner: str = "alice",
        tasks: tuple[str, ...] = ("mm",),
        module: str = "{}",
        **values,
    ) -> str:
        with transaction(self.engine) as session:
            target = store_target(session, TARGET, key=key(TARGET))
            new = NewJob(
                name=name, owner=owner, target_id=target.id, target_name="local", priority=0, max_trials=64,
                max_trials_per_task=None, strategy="evolutionary", seed=0, options={}, warnings=[],
            )  # fmt: skip
            job_id = insert_job(session, new)
            for ordinal, task in enumerate(tasks):
                self._number += 1
                workload_id = store_workload(
                    session,
                    NewWorkload(
                        tvm_version="0.27", shash=f"{self._number:016x}", module=module, flops=1e9,
                        args=[{"shape": [2, 2], "dtype": "float32"}],
                    ),
                    known=0,
                )  # fmt: skip
                search = SearchKey(
                    workload_id=workload_id, target_id=target.id, target_key=target.key, tvm_version="0.27",
                    space=None, space_hash="", strategy="evolutionary", seed=0, policy={}, options={},
                    isolation_key="",
                )  # fmt: skip
                insert_task(
                    session,
                    NewTask(
                        job_id=job_id, ordinal=ordinal, name=task, weight=1.0, workload_id=workload_id,
                        search_id=find_or_make_search(session, search),
                    ),
                )  # fmt: skip
        if values:
            set_job(self.engine, job_id, **values)
        return job_id


def embedded(page: str, element_id: str):
    """The JSON that a page carries for its scripts."""
    return json.loads(re.search(rf'id="{element_id}"[^>]*>(.*?)</script>', page, re.DOTALL).group(1))
