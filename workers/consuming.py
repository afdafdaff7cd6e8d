"""Whether this worker's Celery consumer takes chunks: not while it is draining, in quarantine, or silent.

Silent is a worker whose heartbeats the API does not answer (workers/heartbeat.py).
"""

import threading
from collections.abc import Sequence
from typing import Any


class Consuming:
    """Thread-safe; `apply` may be called as often as one likes."""

    def __init__(self, worker: Any, queues: Sequence[str]) -> None:
        self._worker = worker
        self._queues = tuple(queues)
        self._lock = threading.Lock()
        self._draining = False
        self._quarantined = False
        self._silent = False
        self._takes = True

    def set_draining(self, draining: bool) -> None:  # noqa: FBT001 - the heartbeat's callback
        self._draining = draining
        self.apply()

    def set_quarantined(self, quarantined: bool) -> None:  # noqa: FBT001 - the self-test's callback
        self._quarantined = quarantined
        self.apply()

    @property
    def quarantined(self) -> bool:
        return self._quarantined

    @property
    def silent(self) -> bool:
        return self._silent

    def set_silent(self, silent: bool) -> None:  # noqa: FBT001 - the heartbeat's callback
        self._silent = silent
        self.apply()

    @property
    def fault(self) -> str | None:
        """Why it takes no chunk, in a few words; None where it does."""
        if self._silent:
            return "the API does not answer its heartbeats"
        if self._quarantined:
            return "the device is in quarantine"
        return "it is draining" if self._draining else None

    def apply(self) -> None:
        """Bring the consumer to what is wanted; nothing happens while Celery has none yet: call again."""
        with self._lock:
            wanted = not (self._draining or self._quarantined or self._silent)
            consumer = self._worker.consumer
            if wanted == self._takes or getattr(consumer, "task_consumer", None) is None:
                return
            change = consumer.add_task_queue if wanted else consumer.cancel_task_queue
            for queue in self._queues:
                consumer.call_soon(change, queue)
            self._takes = wanted
