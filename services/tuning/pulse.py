"""When the loop ticks next.

A tick costs milliseconds that candidates need, so results that come by the dozen do not cause one each; but
nobody waits for a tick while a device stands idle.
"""

import threading

#: Pause between ticks while devices work.
_BREATH_SECS = 0.2
#: So many ticks at most follow each other without a pause.
_MOST_AT_ONCE = 8


class Pulse:
    """The loop rests; any thread may end its rest."""

    def __init__(self, *, tick_secs: float) -> None:
        self._tick_secs = tick_secs
        self._woken = threading.Event()
        self._urgent = threading.Event()
        self._lock = threading.Lock()
        #: Trials under way when the loop looked, less those that ended since.
        self._under_way = 0
        self._at_once = 0

    def wake(self) -> None:
        """Something came in that the loop should see soon."""
        self._woken.set()

    def hurry(self) -> None:
        """Something came in that must not wait."""
        self._urgent.set()
        self._woken.set()

    def ended(self, count: int) -> None:
        """So many trials came back; after the last of them a device may be idle."""
        with self._lock:
            self._under_way -= count
            if count and self._under_way <= 0:
                self.hurry()
        self._woken.set()

    def look(self, *, under_way: int) -> None:
        """The loop has counted the trials under way."""
        with self._lock:
            self._under_way = under_way

    def sent(self, count: int) -> None:
        with self._lock:
            self._under_way += count

    def rest(self, *, acted: bool) -> None:
        """Pause until the next tick. `acted`: the last one changed what the next one decides on."""
        with self._lock:
            working = self._under_way > 0
        self._at_once = self._at_once + 1 if acted and not working else 0
        if 0 < self._at_once < _MOST_AT_ONCE:
            return
        if working:
            if not self._urgent.wait(_BREATH_SECS):
                self._woken.wait(self._tick_secs)
        else:
            self._woken.wait(_BREATH_SECS + self._tick_secs)
        self._urgent.clear()
        self._woken.clear()
