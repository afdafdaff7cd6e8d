"""A work directory belongs to one PID namespace: workers know by numbers whose files are left there.

In another container, or on another host, the same number is another process, or none: each of two would take
the other for dead and remove what it works with. A lock of those that live tells it, and who they are.
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from workers.errors import WorkDirShared

_NAMESPACE = Path("/proc/self/ns/pid")
#: Of this host's start: the first namespaces of two hosts bear one number.
_BOOT = Path("/proc/sys/kernel/random/boot_id")


@contextmanager
def one_pid_namespace(work_dir: Path) -> Iterator[None]:
    """Hold the work directory for this PID namespace; raises WorkDirShared where another one's worker lives.

    Where the file system has no locks nothing is checked.
    """
    own = f"{_BOOT.read_text().strip()} {_NAMESPACE.readlink()}"
    with (work_dir / "pid-namespace").open("a+") as file:
        if _holders(file, own) != own:
            raise WorkDirShared(
                f"{work_dir} is in use by a worker of another container or host:"
                " give each a work directory of its own (TILEFARM_WORK_DIR)"
            )
        yield


def _holders(file: IO[str], own: str) -> str:
    """Whose the directory is, from now on: of those that live, and where none does, this one's."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pass
    except OSError:
        return own
    else:
        file.truncate(0)
        file.write(own)
        file.flush()
    # Between the two another may have been first, and has written what it is.
    fcntl.flock(file, fcntl.LOCK_SH)
    file.seek(0)
    return file.read()
