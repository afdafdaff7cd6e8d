"""A child's directory, seen from outside: the child may have made anything of it.

A name may be a pipe or a link, a tree deeper than Python recurses, a directory that nobody may read. Nothing
here waits, follows a link, or is stopped by what it finds.
"""

import contextlib
import errno
import os
import stat
import uuid
from pathlib import Path


def read_file(path: Path, *, tail_bytes: int | None = None) -> bytes:
    """The bytes of a regular file, or its last ones; raises OSError where it is no such file."""
    # To open a pipe would be to wait until somebody writes into it.
    file_fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(file_fd, "rb") as file:
        status = os.fstat(file_fd)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        if tail_bytes is not None:
            file.seek(max(0, status.st_size - tail_bytes))
        return file.read(-1 if tail_bytes is None else tail_bytes)


def remove(directory: Path) -> None:
    """The directory with all that is in it. What the system does not let go stays; nothing is raised."""
    pending = [directory]
    while pending:
        place = pending.pop()
        for entry in _entries(place):
            with contextlib.suppress(OSError):
                path = Path(entry.path)
                if entry.is_dir(follow_symlinks=False):
                    path.chmod(0o700)
                    # All side by side: however deep the tree is, no path grows.
                    pending.append(path.rename(directory / uuid.uuid4().hex))
                else:
                    path.unlink()
        with contextlib.suppress(OSError):
            place.rmdir()
    with contextlib.suppress(OSError):
        directory.rmdir()


def _entries(directory: Path) -> list[os.DirEntry[str]]:
    with contextlib.suppress(OSError):
        if directory.is_symlink():
            directory.unlink()
            return []
        directory.chmod(0o700)
        with os.scandir(directory) as entries:
            return list(entries)
    return []
