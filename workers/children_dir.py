"""Where the children of one worker process have their directories, and how what the dead left is found."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sandbox.directory import remove


@contextmanager
def children_dir(work_dir: Path) -> Iterator[Path]:
    """A directory of this process; what processes that were killed left behind goes."""
    parent = work_dir / "children"
    parent.mkdir(parents=True, exist_ok=True)
    own = parent / str(os.getpid())
    for left in parent.iterdir():
        # One of our own number was a predecessor's: in a container every one of them is process 1.
        if left == own or not Path("/proc", left.name).exists():
            remove(left)
    own.mkdir(exist_ok=True)
    try:
        yield own
    finally:
        remove(own)
