"""Whether a file was opened, by whomever: inotify, whose events nobody has to be there for.

A candidate leaves nothing behind but in its own directory, which goes with it: it is seen by what it reads.
"""

import contextlib
import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

_IN_OPEN = 0x20
#: Of an event of a file that is watched itself: it has no name.
_EVENT_BYTES = 16

_libc = ctypes.CDLL(None, use_errno=True)


class Opened:
    """Counts from the moment it is made; equal events that follow each other are one."""

    def __init__(self, path: Path) -> None:
        self._fd = _checked(_libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        _checked(_libc.inotify_add_watch(self._fd, os.fsencode(path), _IN_OPEN))

    def happened(self) -> bool:
        with contextlib.suppress(BlockingIOError):
            return len(os.read(self._fd, 1 << 16)) >= _EVENT_BYTES
        return False

    def close(self) -> None:
        os.close(self._fd)


@contextlib.contextmanager
def appearing(path: Path) -> Iterator[Opened]:
    """The file is there within the context; whoever opens it then is noticed."""
    hidden = path.with_name(f".{path.name}")
    hidden.touch()
    opened = Opened(hidden)
    try:
        hidden.rename(path)
        yield opened
    finally:
        path.unlink()
        opened.close()


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"inotify: {os.strerror(number)}")
    return result
