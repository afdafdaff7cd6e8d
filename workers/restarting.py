"""What follows when the worker cannot go on as it is: it hears nothing, or one of its threads has died.

Its consumer is ended; where that hangs, all of the process, as where a signal asked for the end. Ending is
Celery's own, in its main thread, so that the fleet is left and children end. Who restarts is workers/main.py.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import structlog
from celery.worker import state

from workers.errors import ThreadDied, WorkerError

_log = structlog.get_logger(__name__)
#: Whoever supervises the worker is patient for ten seconds at least.
_GRACE_SECS = 6.0


@dataclass(slots=True, kw_only=True)
class Restarting:
    """Thread-safe."""

    #: Called where the consumer has not ended in time; it does not return.
    last_resort: Callable[[], None]
    _fault: WorkerError | None = None
    _ended: threading.Event = field(default_factory=threading.Event)

    def end_worker(self, fault: WorkerError) -> None:
        """Ask Celery to end, and see to it that it does; returns at once."""
        self._fault = self._fault or fault
        state.should_stop = 0
        self.insist(self.last_resort)

    def insist(self, last_resort: Callable[[], None]) -> None:
        """Somebody has asked Celery to end: where it has not in time, the last resort; returns at once."""
        threading.Thread(target=self._insist, args=(last_resort,), name="insisting", daemon=True).start()

    @contextmanager
    def watching_threads(self) -> Iterator[None]:
        """Meanwhile a thread that ends by an exception ends the worker: nobody else would notice."""
        before, threading.excepthook = threading.excepthook, self._note_death
        try:
            yield
        finally:
            threading.excepthook = before

    def raise_fault(self) -> None:
        """When Celery has ended: raises why, where it was not asked for by a signal."""
        self._ended.set()
        state.should_stop = None
        if self._fault is not None:
            raise self._fault

    def _note_death(self, death: threading.ExceptHookArgs) -> None:
        if death.exc_value is None or isinstance(death.exc_value, SystemExit):
            return
        name = "unknown" if death.thread is None else death.thread.name
        _log.error("thread_died", thread=name, exc_info=death.exc_value)
        self.end_worker(ThreadDied(f"the thread {name} has ended: {death.exc_value!r}"))

    def _insist(self, last_resort: Callable[[], None]) -> None:
        if not self._ended.wait(_GRACE_SECS):
            last_resort()
