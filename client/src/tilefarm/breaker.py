"""After the service failed to answer, nobody waits for it again for a while. It asks nothing itself.

And however long it stays away, all that is waited for it in vain is one deadline: what is left of it is what
the next question may wait. With nothing left it is still asked, and once it answers in time it is waited for.
"""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from tilefarm.deadline import call_within
from tilefarm.errors import DeadlineError, ProblemError, ServiceError

_T = TypeVar("_T")


class CircuitBreaker:
    """Open for `cooling_secs` after a failure; thread-safe."""

    def __init__(self, *, cooling_secs: float, now: Callable[[], float] = time.monotonic) -> None:
        self._cooling_secs = cooling_secs
        self._now = now
        self._lock = threading.Lock()
        self._open_until = float("-inf")
        #: In vain, since the service answered last.
        self._waited_secs = 0.0

    def remaining_secs(self) -> float:
        """0 where a question may be asked."""
        with self._lock:
            return max(0.0, self._open_until - self._now())

    def patience_secs(self, timeout_secs: float) -> float:
        """What is left of a deadline."""
        with self._lock:
            return max(0.0, timeout_secs - self._waited_secs)

    def failed(self, *, waited_secs: float) -> None:
        with self._lock:
            self._open_until = self._now() + self._cooling_secs
            self._waited_secs += waited_secs

    def succeeded(self) -> None:
        """It answered within a deadline, though whoever asked may have gone on without."""
        with self._lock:
            self._open_until = float("-inf")
            self._waited_secs = 0.0

    def call(self, ask: Callable[[], _T], *, timeout_secs: float) -> _T:
        """What the service answers, within what is left of a deadline.

        Raises its ServiceError; DeadlineError at once where it failed a moment ago.
        """
        cooling_secs = self.remaining_secs()
        if cooling_secs > 0:
            raise DeadlineError(f"the service failed a moment ago; it is asked again in {cooling_secs:.0f} s")
        began = self._now()
        try:
            answer = call_within(ask, timeout_secs=self.patience_secs(timeout_secs))
        except ServiceError as error:
            if isinstance(error, ProblemError) and not error.is_outage:
                self.succeeded()
            else:
                self.failed(waited_secs=self._now() - began)
            raise
        self.succeeded()
        return answer
