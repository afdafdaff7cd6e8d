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


def is_own(stat: os.stat_result) -> bool:
    """Whether nobody but this user can have written a file."""
    owner = os.geteuid() if hasattr(os, "geteuid") else None
    return stat.st_uid == owner and not stat.st_mode & _WRITABLE_BY_OTHERS
