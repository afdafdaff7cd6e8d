"""Whose turn the device is within this process: a chunk's or the self-test's.

A chunk never waits for a test: it ends the test's child, and the test is put off.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from sandbox.child import Child


class Turn:
    """Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._chunks = 0
        self._child: Child | None = None
        self._ended = False
        self._idle_since = time.monotonic()

    @contextmanager
    def chunk(self) -> Iterator[None]:
        """A chunk is measured meanwhile."""
        with self._lock:
            self._chunks += 1
            self._end_test()
        try:
            yield
        finally:
            with self._lock:
                self._chunks -= 1
                self._idle_since = time.monotonic()

    @contextmanager
    def test(self, child: Child) -> Iterator[None]:
        """`child` tests the device meanwhile; it is killed as soon as a chunk is there."""
        with self._lock:
            self._child = child
            if self._chunks or self._ended:
                self._end_test()
        try:
            yield
        finally:
            with self._lock:
                self._child = None

    @property
    def idle_secs(self) -> float:
        """Since the last chunk ended; 0 while there is one."""
        with self._lock:
            return 0.0 if self._chunks else time.monotonic() - self._idle_since

    def test_unwanted(self) -> bool:
        """A chunk is there, or the worker ends."""
        with self._lock:
            return self._chunks > 0 or self._ended

    def end_tests(self) -> None:
        """The worker ends: whatever test is under way or begins ends at once."""
        with self._lock:
            self._ended = True
            self._end_test()

    def _end_test(self) -> None:
        if self._child is not None:
            self._child.kill()
