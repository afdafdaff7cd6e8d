"""The worker's Celery steps: they read a message and hand it on. A task is something else (glossary)."""

from collections.abc import Callable
from typing import Any

import structlog
from celery import Celery

from sandbox.errors import SandboxError
from workers.errors import WorkerError
from workers.messages import MeasureChunk, MessageError
from workers.queues import CANARY_STEP

_log = structlog.get_logger(__name__)


def register_steps(
    app: Celery, *, step: str, work: Callable[[MeasureChunk], None], hear: Callable[[str], None]
) -> None:
    """The worker's own step and its canary's.

    A chunk that cannot be worked on is logged and dropped: its trials are rung again by the reconciler.
    """

    def take(obj: dict[str, Any]) -> None:
        try:
            chunk = MeasureChunk.from_json(obj)
            ids = {"chunk_id": chunk.chunk_id, "job_id": chunk.job_id, "search_id": chunk.search_id}
            log = _log.bind(**ids, trials=len(chunk.trials))
            log.info("chunk_started")
            work(chunk)
            log.info("chunk_done")
        except (MessageError, SandboxError, WorkerError) as error:
            _log.error("chunk_failed", kind=type(error).__name__, reason=str(error))

    app.task(name=step, ignore_result=True)(take)
    app.task(name=CANARY_STEP, ignore_result=True)(hear)
