"""The worker's Celery steps: they read a message and hand it on. A task is something else (glossary)."""

from collections.abc import Callable
from typing import Any

import structlog
from celery import Celery

from sandbox.errors import SandboxError
from workers.errors import WorkerError
from workers.messages import MeasureChunk, MessageError
from workers.queues import MEASURE_STEP

_log = structlog.get_logger(__name__)


def register_steps(app: Celery, *, measure: Callable[[MeasureChunk], None]) -> None:
    """A chunk that cannot be measured is logged and dropped: its trials are rung again by the reconciler."""

    def step(obj: dict[str, Any]) -> None:
        try:
            chunk = MeasureChunk.from_json(obj)
            log = _log.bind(chunk_id=chunk.chunk_id, search_id=chunk.search_id, trials=len(chunk.trials))
            log.info("chunk_started")
            measure(chunk)
            log.info("chunk_done")
        except (MessageError, SandboxError, WorkerError) as error:
            _log.error("chunk_failed", kind=type(error).__name__, reason=str(error))

    app.task(name=MEASURE_STEP, ignore_result=True)(step)
