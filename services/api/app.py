"""The API role: `create_app(settings)`. Stateless: everything it knows is in rows.

It never imports tvm; what a client sent is loaded by a sandboxed child. Endpoints are plain functions on
threads, event streams aside.
"""

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version

import structlog
from anyio import to_thread
from fastapi import FastAPI
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.requests import Request
from starlette.responses import JSONResponse

from db.session import connect
from sandbox.errors import ForkServerDied
from sandbox.fork_server import ForkServer
from services.api import errors, metrics
from services.api.access_log import AccessLog
from services.api.body import BodyLimit, BodyLimits
from services.api.events import EventPoller
from services.api.intake import PRELOAD, Intake, Spawning
from services.api.lookup_traffic import LookupTraffic
from services.api.overload import LimitRequests, Places, RefuseRequests
from services.api.request_times import RequestTimes, TimeRequests
from services.api.routes import (
    artifacts,
    expectations,
    health,
    jobs,
    lookup,
    records,
    signing_keys,
    tasks,
    workers,
)
from services.api.settings import ApiSettings
from services.dashboard import mount as dashboard

_log = structlog.get_logger(__name__)


def create_app(settings: ApiSettings, *, spawning: Spawning | None = None) -> FastAPI:
    """The application; `spawning` is the fork server of a test."""
    if settings.work_dir is not None:
        settings.work_dir.mkdir(parents=True, exist_ok=True)
    fork_server = ForkServer(PRELOAD, work_dir=settings.work_dir) if spawning is None else None

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        to_thread.current_default_thread_limiter().total_tokens = settings.threads
        if fork_server is not None:
            # It takes seconds to load TVM: the first submission, or a worker that joins, would wait for that.
            threading.Thread(target=_warm_up, args=(fork_server,), name="intake-start", daemon=True).start()
        yield
        app.state.ending.set()
        await app.state.events.close()
        app.state.lookup_traffic.close()
        if fork_server is not None:
            fork_server.close()
        app.state.engine.dispose()

    app = FastAPI(
        title="tilefarm",
        version=version("tilefarm-server"),
        lifespan=lifespan,
        responses=errors.RESPONSES,
        docs_url="/docs",
        openapi_url="/v1/openapi.json",
        redoc_url=None,
    )
    app.state.request_times = RequestTimes()
    attach(app, settings, spawning or fork_server)
    errors.install(app)
    app.add_exception_handler(OperationalError, _on_database)
    app.add_exception_handler(InterfaceError, _on_database)
    app.add_exception_handler(PoolTimeout, _on_database)
    places = Places(max_requests=settings.max_requests, max_submissions=settings.max_submissions)
    app.add_middleware(LimitRequests, places=places)
    app.add_middleware(
        BodyLimit,
        limits=BodyLimits(
            body_bytes=settings.max_body_bytes,
            binary_bytes=settings.max_artifact_bytes,
            together_bytes=settings.max_bodies_bytes,
            secs=settings.body_timeout_secs,
        ),
    )
    app.add_middleware(AccessLog)
    app.add_middleware(RefuseRequests, places=places)
    app.add_middleware(TimeRequests, times=app.state.request_times)
    for routes in (jobs, tasks, records, signing_keys, lookup, expectations, workers, artifacts, health):
        app.include_router(routes.router)
    dashboard.install(app)
    return app


def attach(app: FastAPI, settings: ApiSettings, spawning: Spawning | None) -> None:
    """Give the app what its handlers share, all of it made for one database."""
    assert spawning is not None
    app.state.ending = threading.Event()
    engine = connect(
        settings.database_url,
        pool_size=settings.threads,
        timeout_secs=settings.database_timeout_secs,
        ending=app.state.ending,
    )
    app.state.settings = settings
    app.state.engine = engine
    app.state.intake = Intake(spawning, settings)
    app.state.events = EventPoller(engine, settings)
    app.state.lookup_traffic = LookupTraffic(engine)
    app.state.registry = metrics.registry(engine, settings, app.state.request_times)


def _warm_up(fork_server: ForkServer) -> None:
    try:
        fork_server.start()
    except ForkServerDied as error:
        _log.warning("intake_not_started", reason=str(error))


def _on_database(_request: Request, _error: Exception) -> JSONResponse:
    return errors.problem_response(
        errors.UnavailableError("database_unavailable", "the database does not answer; try again")
    )
