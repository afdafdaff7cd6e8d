"""Work that nobody waits for: a thread of its own sends what a compile or a tuning run leaves behind.

The end of the process waits for it, for a bounded time. What is handed over is plain data, never an object
of TVM.
"""

import atexit
import contextlib
import os
import queue
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

_T = TypeVar("_T")


class Background(Generic[_T]):
    """`handle` gets all that waits, in order; it must not raise."""

    def __init__(
        self, handle: Callable[[list[_T]], None], *, leave_secs: float, gather_secs: float = 0.0
    ) -> None:
        """What comes within `gather_secs` of one another is handed over together."""
        self._handle = handle
        self._leave_secs = leave_secs
        self._gather_secs = gather_secs
        self._queue: queue.SimpleQueue[_T | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()
        atexit.register(self.leave)

    def put(self, item: _T) -> None:
        """Returns at once; the first starts the thread."""
        if self._pid != os.getpid():  # a forked child has no thread of its parent
            self._queue, self._thread, self._pid = queue.SimpleQueue(), None, os.getpid()
        self._queue.put(item)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="tilefarm-background", daemon=True)
            self._thread.start()

    def leave(self) -> None:
        """Sends what is left, for a bounded time."""
        if self._thread is not None and self._pid == os.getpid():
            self._queue.put(None)
            self._thread.join(self._leave_secs)
            self._thread = None

    def _run(self) -> None:
        waiting = self._queue
        while True:
            items = [waiting.get()]
            with contextlib.suppress(queue.Empty):
                while items[-1] is not None:
                    items.append(waiting.get(timeout=self._gather_secs))
            self._handle([item for item in items if item is not None])
            if items[-1] is None:
                return
