"""What is on its way into place has a name of its own until it is whole; what the dead left of it goes."""

import os
import threading
from pathlib import Path

from sandbox.directory import remove


def staged(place: Path) -> Path:
    """Where this thread makes what is to stand at `place`; the name has a dot first, and the process."""
    return place.with_name(f".{place.name}.{os.getpid()}.{threading.get_ident()}")


def is_staged(path: Path) -> bool:
    return path.name.startswith(".")


def drop_left(directory: Path) -> None:
    """Remove what no living process brings into place any more."""
    for path in directory.glob(".*.*.*"):
        if is_left(path.name.split(".")[-2]):
            if path.is_dir():
                remove(path)
            else:
                path.unlink(missing_ok=True)


def is_left(pid: str) -> bool:
    """Whether what bears this process's number was left by a dead one; to be asked by a process that starts.

    One of its own number was a predecessor's: in a container every one of them is process 1.
    """
    return pid == str(os.getpid()) or not Path("/proc", pid).exists()
