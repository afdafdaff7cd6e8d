"""Health, readiness, metrics, version: what operators and probes ask. No token; nothing of a job is told."""

from collections.abc import Callable
from importlib.metadata import version
from typing import TypeVar

import anyio
import redis
from anyio import to_thread
from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from db.migrate import head_revision, is_behind
from services.api.deps import EngineDep, SettingsDep
from services.api.errors import ErrorEntry, UnavailableError
from services.api.schemas_records import Health, Readiness, Version

router = APIRouter(tags=["operations"])
_T = TypeVar("_T")
_BROKER_TIMEOUT_SECS = 2.0
_CHECK_SECS = 3.0


@router.get("/healthz")
async def healthz() -> Health:
    """The process answers; it needs no thread, which others may hold."""
    return Health(status="ok")


@router.get("/readyz")
async def readyz(engine: EngineDep, settings: SettingsDep) -> Readiness:
    """The database answers and has this version's schema; the broker answers, where one is set."""
    checks = {"database": await _soon(_database, engine)}
    if settings.broker_url is not None:
        checks["broker"] = await _soon(_broker, settings.broker_url)
    faults = [ErrorEntry(code=name, detail=state) for name, state in checks.items() if state != "ok"]
    if faults:
        error = UnavailableError("not_ready", f"{faults[0].code}: {faults[0].detail}")
        error.errors = faults
        raise error
    return Readiness(status="ready", checks=checks)


@router.get("/metrics", response_class=Response)
def metrics(request: Request) -> Response:
    """Prometheus text."""
    return Response(generate_latest(request.app.state.registry), media_type=CONTENT_TYPE_LATEST)


@router.get("/v1/version")
def show_version() -> Version:
    return Version(version=version("tilefarm-server"), api="v1", schema_revision=head_revision())


async def _soon(check: Callable[[_T], str], subject: _T) -> str:
    """What a check finds, on a thread of its own: all others may wait for what it asks."""
    with anyio.move_on_after(_CHECK_SECS):
        return await to_thread.run_sync(
            check, subject, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1)
        )
    return "it does not answer"


def _database(engine: Engine) -> str:
    try:
        behind = is_behind(engine)
    except SQLAlchemyError as error:
        return type(error).__name__
    return "it lacks this version's schema: tilefarm-server db upgrade" if behind else "ok"


def _broker(url: str) -> str:
    try:
        client = redis.Redis.from_url(
            url.replace("redis+socket://", "unix://", 1),
            socket_timeout=_BROKER_TIMEOUT_SECS,
            socket_connect_timeout=_BROKER_TIMEOUT_SECS,
        )
        try:
            client.ping()
        finally:
            client.close()
    except (redis.RedisError, ValueError) as error:
        return type(error).__name__
    return "ok"
