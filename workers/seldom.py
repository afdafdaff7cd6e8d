"""Sensors that are read seldom: a heartbeat carries them only when they have changed."""

import time
from dataclasses import dataclass, field

EVERY_SECS = 10.0


@dataclass(slots=True, kw_only=True)
class Seldom:
    """Of one device; `read` may be called by one thread. Who has sensors says by `_asked` what they tell."""

    every_secs: float = EVERY_SECS
    _read_at: float = -float("inf")
    _values: dict[str, float] = field(default_factory=dict)

    def read(self) -> dict[str, float]:
        """`temperature_celsius` and `clock_mhz`, whichever are known; at most `every_secs` old."""
        if time.monotonic() - self._read_at >= self.every_secs:
            self._read_at = time.monotonic()
            self._values = self._asked()
        return self._values

    def _asked(self) -> dict[str, float]:
        raise NotImplementedError
