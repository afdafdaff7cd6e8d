"""After the service failed to answer, nobody waits for it again for a while. It asks nothing itself."""

import threading
import time
from collections.abc import Callable


class CircuitBreaker:
    """Open for `cooling_secs` after a failure; thread-safe."""

    def __init__(self, *, cooling_secs: float, now: Callable[[], float] = time.monotonic) -> None:
        self._cooling_secs = cooling_secs
        self._now = now
        self._lock = threading.Lock()
        self._open_until = float("-inf")

    def remaining_secs(self) -> float:
        """0 where a question may be asked."""
        with self._lock:
            return max(0.0, self._open_until - self._now())

    def failed(self) -> None:
        with self._lock:
            self._open_until = self._now() + self._cooling_secs

    def succeeded(self) -> None:
        with self._lock:
            self._open_until = float("-inf")
