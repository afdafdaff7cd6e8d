"""What follows when the worker has become deaf: its consumer is ended; where that hangs, all of the process.

Ending is Celery's own, in its main thread, so that the fleet is left and children end; see workers/canary.py.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from celery.worker import state

from workers.errors import WorkerDeaf

_GRACE_SECS = 10.0


@dataclass(slots=True, kw_only=True)
class Deafness:
    """Thread-safe."""

    #: Called where the consumer has not ended in time; it does not return.
    last_resort: Callable[[], None]
    _deaf: threading.Event = field(default_factory=threading.Event)
    _ended: threading.Event = field(default_factory=threading.Event)

    def end_worker(self) -> None:
        """Ask Celery to end, and wait until it has; called by the canary's thread."""
        self._deaf.set()
        state.should_stop = 0
        if not self._ended.wait(_GRACE_SECS):
            self.last_resort()

    def raise_if_deaf(self) -> None:
        """When Celery has ended: raises WorkerDeaf where it was not asked for by a signal."""
        self._ended.set()
        state.should_stop = None
        if self._deaf.is_set():
            raise WorkerDeaf("the worker hears nothing through its broker any more")
