"""Built kernels by content: what was built once is loaded, not built again, by the next fresh process.

A confirmation measures the same two programs in several processes. The store holds shared libraries as
compressed files under the hash of all that decides their bytes; it never runs or reads what it keeps.
"""

import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from sandbox.directory import read_file
from workers.staged import is_staged, staged

#: Of the linked kernel, in the directory of the child that linked it.
LIBRARY_NAME = "kernel.so"
#: Counts up when kernels are linked otherwise, so that old ones are not used.
_FORMAT = 2


class Kernels(Protocol):
    """Where a linked kernel may be, by a key, and where one that was built is kept."""

    def get(self, key: str) -> bytes | None: ...

    def put(self, key: str, library: Path) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactStore:
    """At most `max_count` kernels in `directory`; the least recently used go first."""

    directory: Path
    max_count: int = 512

    def get(self, key: str) -> bytes | None:
        """The library's bytes; None where it is not kept."""
        place = self.directory / key
        try:
            library = zlib.decompress(place.read_bytes())
            place.touch()
        except (OSError, zlib.error):
            return None
        return library

    def put(self, key: str, library: Path) -> None:
        """Keep a copy of what a child made; a disk that is full keeps nothing and hurts nobody."""
        try:
            self.put_bytes(key, read_file(library))
        except OSError:
            return

    def put_bytes(self, key: str, library: bytes) -> None:
        """The same for the library's bytes."""
        new = staged(self.directory / key)
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            new.write_bytes(zlib.compress(library, 1))
            new.replace(self.directory / key)
            self._shrink()
        except OSError:
            new.unlink(missing_ok=True)

    def _shrink(self) -> None:
        kept = [place for place in self.directory.iterdir() if not is_staged(place)]
        if len(kept) > self.max_count:
            by_age = sorted(kept, key=lambda place: place.stat().st_mtime)
            for place in by_age[: len(kept) - self.max_count]:
                place.unlink(missing_ok=True)


def artifact_key(order: Mapping[str, Any], *, tvm_version: str) -> str:
    """SHA-256 (hex) of the workload, the trace, the target and the versions that built it."""
    named = [_FORMAT, order["module"], order["trace"], order["target"], order["linker"], tvm_version]
    return hashlib.sha256(json.dumps(named, sort_keys=True).encode()).hexdigest()
