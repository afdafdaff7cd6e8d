"""Work that may have to be done in two tries, the second one behind all that waited meanwhile."""

from collections.abc import Callable
from concurrent.futures import Executor, Future


class Tries:
    """Submits itself. Any thread may wait for its result."""

    def __init__(self, pool: Executor, first: Callable[[], bool], again: Callable[[], None]) -> None:
        """`again` follows where `first` returns True; the pool runs its work in order."""
        self._pool = pool
        self._again = again
        self._ended = False
        self._future: Future[Future[None] | None] = pool.submit(self._first, first)

    def result(self) -> None:
        """Wait for the last try; raises what a try raised."""
        second = self._future.result()
        if second is not None:
            second.result()

    def end(self) -> None:
        """Cancel what has not begun, wait for what has; what it raised is not raised."""
        self._ended = True
        if self._future.cancel() or self._future.exception() is not None:
            return
        second = self._future.result()
        if second is not None and not second.cancel():
            second.exception()

    def _first(self, first: Callable[[], bool]) -> Future[None] | None:
        return self._pool.submit(self._again) if first() and not self._ended else None
