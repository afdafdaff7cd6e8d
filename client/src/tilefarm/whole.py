"""Files that appear whole or not at all, whoever else writes the same; and who can have written one."""

import contextlib
import os
import tempfile
from pathlib import Path

_WRITABLE_BY_OTHERS = 0o022


def write_whole(path: Path, content: bytes) -> None:
    """All of it or nothing. Raises OSError."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(temporary).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(temporary).unlink(missing_ok=True)
        raise


def read_whole(path: str | Path, *, max_bytes: int) -> tuple[bytes, os.stat_result]:
    """The content, cut off there, and what the file is. Raises OSError."""
    with open(path, "rb", buffering=0, opener=at_once) as file:
        return file.read(max_bytes), os.fstat(file.fileno())


def at_once(path: str, flags: int) -> int:
    """An opener of files: where a pipe lies instead it waits for nobody at its other end."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o600)


def is_own(stat: os.stat_result) -> bool:
    """Whether nobody but this user can have written a file."""
    owner = os.geteuid() if hasattr(os, "geteuid") else None
    return stat.st_uid == owner and not stat.st_mode & _WRITABLE_BY_OTHERS
