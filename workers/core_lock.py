"""The lock of one core on its host: who has it times there, and nobody else.

The kernel hands it on in the order in which processes wait, and gives it back when one dies. A wait can be
given up, though the system call cannot: it goes on in a thread, and what it gets then is handed on at once.
Nothing polls it, on a core that somebody may be timing on.
"""

import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from workers.errors import DeviceError, DeviceUnwanted

_LOOK_SECS = 0.1


class CoreLock:
    """Shared by the threads of a process, which take turns before they ask others."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._turn = threading.Lock()
        self._mutex = threading.Lock()
        #: A thread waits in the kernel; whether somebody waits for that thread.
        self._waiting = False
        self._wanted = False
        self._arrived = threading.Event()
        self._arrived_fd = -1

    def check(self) -> None:
        """Raises DeviceError where the lock cannot be opened."""
        os.close(self._open())

    @contextmanager
    def held(self, *, given_up: Callable[[], bool]) -> Iterator[None]:
        """Waits as long as it takes; raises DeviceUnwanted once `given_up` says so, or as `check`."""
        while not self._turn.acquire(timeout=_LOOK_SECS):
            if given_up():
                raise DeviceUnwanted(f"nobody waits any more for {self.path}")
        try:
            lock_fd = self._take(given_up)
            try:
                yield
            finally:
                os.close(lock_fd)
        finally:
            self._turn.release()

    def _take(self, given_up: Callable[[], bool]) -> int:
        """The descriptor that has the lock."""
        with self._mutex:
            if not self._waiting:
                lock_fd = self._open()
                if _locked(lock_fd):
                    return lock_fd
                threading.Thread(target=self._wait, args=(lock_fd,), name="core-lock", daemon=True).start()
                self._waiting = True
            self._wanted = True
        while not self._arrived.wait(_LOOK_SECS):
            with self._mutex:
                if not self._arrived.is_set() and given_up():
                    self._wanted = False
                    raise DeviceUnwanted(f"nobody waits any more for {self.path}, which another process has")
        self._arrived.clear()
        return self._arrived_fd

    def _wait(self, lock_fd: int) -> None:
        fcntl.flock(lock_fd, fcntl.LOCK_EX)
        with self._mutex:
            self._waiting = False
            if self._wanted:
                self._wanted, self._arrived_fd = False, lock_fd
                self._arrived.set()
            else:
                os.close(lock_fd)

    def _open(self) -> int:
        """Of any user's file: a lock needs no right to write, and its directory is open to all."""
        path = self.path
        try:
            if not path.parent.is_dir():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.parent.chmod(0o1777)
            if not path.exists():
                os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise DeviceError(f"the device lock {path} cannot be opened: {error}") from error


def _locked(lock_fd: int) -> bool:
    try:
        fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
