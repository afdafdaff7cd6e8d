"""Fills a small file system to its last byte, and empties it again."""

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_BLOCK = b"\0" * (1 << 20)


@contextmanager
def full(path: Path) -> Iterator[None]:
    ballast = path / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            with contextlib.suppress(OSError):
                while file.write(_BLOCK[:size]):
                    pass
        os.fsync(file.fileno())
        try:
            yield
        finally:
            ballast.unlink()
