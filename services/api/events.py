"""Server-sent events: snapshots of jobs, id = revision, from one poller of the watched rows per process.

Between polls no connection is held. Because every event is a whole snapshot, any replica resumes a stream
without a log: a reader that comes back with Last-Event-ID gets the present state at once.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator

import structlog
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from db.jobs import revisions
from db.session import reading
from services.api.errors import UnavailableError
from services.api.schemas import JobView
from services.api.settings import ApiSettings
from services.api.views import job_view

_log = structlog.get_logger(__name__)


class EventPoller:
    """Shared by all streams of the process."""

    def __init__(self, engine: Engine, settings: ApiSettings) -> None:
        self._engine = engine
        self._settings = settings
        self._watched: Counter[str] = Counter()
        self._snapshots: dict[str, JobView] = {}
        self._changed = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    def admit(self) -> None:
        """Raises UnavailableError where too many streams are open."""
        if self._watched.total() >= self._settings.max_event_streams:
            raise UnavailableError("too_many_streams", "too many event streams are open")

    async def stream(self, first: JobView) -> AsyncIterator[str]:
        """Events of one job as text, from a snapshot that was just read until the job has ended."""
        job_id, snapshot = first.id, first
        self._watched[job_id] += 1
        self._ensure_running()
        try:
            while True:
                yield _event("job", snapshot)
                if snapshot.state.ended:
                    yield _event("end", snapshot)
                    return
                sent = snapshot.revision
                while (newer := self._newer(job_id, sent)) is None:
                    if not await self._wait():
                        self._ensure_running()
                        yield ": alive\n\n"
                snapshot = newer
        finally:
            self._watched[job_id] -= 1
            if not self._watched[job_id]:
                del self._watched[job_id]
                self._snapshots.pop(job_id, None)

    def _newer(self, job_id: str, revision: int) -> JobView | None:
        snapshot = self._snapshots.get(job_id)
        return snapshot if snapshot is not None and snapshot.revision > revision else None

    async def _wait(self) -> bool:
        """True when some job changed; False after a silent while."""
        try:
            async with asyncio.timeout(self._settings.events_heartbeat_secs), self._changed:
                await self._changed.wait()
        except TimeoutError:
            return False
        return True

    def _ensure_running(self) -> None:
        if self._task is not None and self._task.done() and not self._task.cancelled():
            error = self._task.exception()
            if error is not None:
                _log.error("events_poll_died", exc_info=error)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._poll())

    async def _poll(self) -> None:
        while self._watched:
            try:
                fresh = await run_in_threadpool(self._look, list(self._watched))
            except SQLAlchemyError as error:
                _log.warning("events_poll_failed", reason=str(error)[:500])
                fresh = {}
            if fresh:
                # Of a job that nobody watches any more nothing is kept.
                self._snapshots |= {job_id: view for job_id, view in fresh.items() if job_id in self._watched}
                async with self._changed:
                    self._changed.notify_all()
            await asyncio.sleep(self._settings.events_poll_secs)

    def _look(self, job_ids: list[str]) -> dict[str, JobView]:
        """Snapshots of the jobs that changed since the last look."""
        with reading(self._engine) as session:
            found = revisions(session, job_ids)
            known = {job_id: view.revision for job_id, view in self._snapshots.items()}
            views = (
                _view(session, job_id)
                for job_id, revision in found.items()
                if revision > known.get(job_id, 0)
            )
            return {view.id: view for view in views if view is not None}


def _view(session: Session, job_id: str) -> JobView | None:
    """None of rows that do not read: a newer release may have written them. Others' watchers go on."""
    try:
        return job_view(session, job_id)
    except (ValueError, LookupError, TypeError) as error:
        _log.error("job_unreadable", job_id=job_id, reason=repr(error)[:500])
        return None


def _event(kind: str, view: JobView) -> str:
    return f"event: {kind}\nid: {view.revision}\ndata: {view.model_dump_json()}\n\n"
