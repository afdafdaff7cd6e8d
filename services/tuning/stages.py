"""Where a replica's seconds go: its parts tell what they spent, and know nothing of who listens."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: (stage, seconds); from any thread.
Spent = Callable[[str, float], None]


def untold(stage: str, secs: float) -> None:
    """Nobody listens."""


@contextmanager
def timed(spent: Spent, stage: str) -> Iterator[None]:
    """Wall-clock, also of what fails."""
    began = time.monotonic()
    try:
        yield
    finally:
        spent(stage, time.monotonic() - began)
