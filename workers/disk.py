"""A full disk is the worker's failure, never a candidate's: chunks wait; what it touched is done again."""

import errno
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import structlog

from workers.errors import DiskFull

_log = structlog.get_logger(__name__)

_FULL = os.strerror(errno.ENOSPC)
#: A chunk begins only where so much is free: its kernels and its children's directories take a few megabytes.
_NEEDED_BYTES = 16 << 20
_POLL_SECS = 0.5
_MOST_SECS = 60.0


def says_full(error: str | None) -> bool:
    """Whether a child, or the linker, failed because nothing could be written."""
    return error is not None and _FULL in error


def await_space(directory: Path, *, given_up: Callable[[], bool]) -> None:
    """Wait until there is space again, or nobody waits for the chunk any more.

    Raises DiskFull after a while: nobody else may have what this worker holds.
    """
    place = next(path for path in (directory, *directory.parents) if path.exists())
    if shutil.disk_usage(place).free >= _NEEDED_BYTES:
        return
    _log.error("disk_full", directory=str(directory), needed_bytes=_NEEDED_BYTES)
    deadline = time.monotonic() + _MOST_SECS
    while shutil.disk_usage(place).free < _NEEDED_BYTES and not given_up():
        if time.monotonic() > deadline:
            raise DiskFull(f"{directory} has had no space for {_MOST_SECS:g} s")
        time.sleep(_POLL_SECS)
    _log.info("disk_free", directory=str(directory))
