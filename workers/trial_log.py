"""Log lines of single attempts, with every id by which a trial is followed from process to process.

What a worker tells of an attempt names neither job nor task; the chunk that brought it does.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import structlog

from workers.messages import MeasureChunk, Result, TrialOutcome

_log = structlog.get_logger(__name__)


class TrialLog:
    """Remembers the chunk at hand; written by the chunk's thread, read by any."""

    def __init__(self) -> None:
        self._ids: dict[tuple[int, int], dict[str, Any]] = {}

    @contextmanager
    def chunk(self, chunk: MeasureChunk) -> Iterator[None]:
        """What is told meanwhile is told of this chunk's attempts."""
        own = {"chunk_id": chunk.chunk_id, "job_id": chunk.job_id, "search_id": chunk.search_id}
        mine = {(order.trial_id, order.attempt): {**own, "task_id": order.task_id} for order in chunk.trials}
        self._ids |= mine
        try:
            yield
        finally:
            for attempt in mine:
                self._ids.pop(attempt, None)

    def told(self, result: Result) -> None:
        """One line for what was published."""
        ids = self._ids.get((result.trial_id, result.attempt), {})
        outcome = {"outcome": result.outcome} if isinstance(result, TrialOutcome) else {}
        _log.info(
            "result_told",
            kind=type(result).__name__,
            trial_id=result.trial_id,
            attempt=result.attempt,
            worker_id=result.worker_id,
            **ids,
            **outcome,
        )
