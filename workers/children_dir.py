"""Where the children of one worker process have their directories; what the dead left in /work is removed."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sandbox.directory import remove
from workers.pid_namespace import one_pid_namespace
from workers.staged import drop_left, is_left


@contextmanager
def children_dir(work_dir: Path) -> Iterator[Path]:
    """A directory of this process; what processes that were killed left behind goes.

    Raises WorkDirShared where a living worker of another PID namespace has the work directory.
    """
    parent = work_dir / "children"
    parent.mkdir(parents=True, exist_ok=True)
    with one_pid_namespace(work_dir):
        own = parent / str(os.getpid())
        for left in parent.iterdir():
            if is_left(left.name):
                remove(left)
        for store in work_dir.iterdir():
            if store.is_dir():
                drop_left(store)
        own.mkdir(exist_ok=True)
        try:
            yield own
        finally:
            remove(own)
