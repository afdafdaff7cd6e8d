"""Which records were applied to their modules before, by this user's processes with exactly this TVM.

What a trace does to a module depends on nothing else, so a compile need not wait for it to be tried again. A
record is named by its content: one that was changed is another one. Written by others it is no proof.
"""

import hashlib
import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tilefarm.version import VERSION
from tilefarm.whole import at_once, is_own, read_whole, write_whole

#: Those that were noted last stay; a line has 65 bytes.
_MAX_KEPT = 4_096
_LINE_BYTES = 65
_MAX_TRACES = 512
_log = logging.getLogger("tilefarm")


class Proven:
    """Thread-safe. A directory that cannot be read or written keeps nothing, and is no error."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._known: set[str] | None = None
        self._path: Path | None = None
        self._traces: OrderedDict[tuple[str, str], Any] = OrderedDict()

    def holds(self, content_sha256: str) -> bool:
        with self._lock:
            return content_sha256 in self._all()

    def note(self, content_sha256: str) -> None:
        """That the record of this module and trace was applied, and its trace can be built."""
        if not content_sha256:
            return
        with self._lock:
            known = self._all()
            if content_sha256 not in known:
                known.add(content_sha256)
                assert self._path is not None
                self._append(self._path, content_sha256)

    def trace(self, content_sha256: str, name: str, build: Callable[[], Any]) -> Any:
        """Built once for each name of the function. Nobody changes it: schedules have traces of their own."""
        key = (content_sha256, name)
        with self._lock:
            found = self._traces.get(key)
        if found is None:
            found = build()
            with self._lock:
                self._traces[key] = found
                if len(self._traces) > _MAX_TRACES:
                    self._traces.popitem(last=False)
        return found

    def _all(self) -> set[str]:
        if self._path is None or self._known is None:
            self._path = self._directory / _tvm()
            self._known = _read(self._path)
        return self._known

    def _append(self, path: Path, content_sha256: str) -> None:
        try:
            if not path.parent.is_dir():
                path.parent.mkdir(parents=True, mode=0o700)
            handle = at_once(str(path), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            try:
                os.write(handle, f"{content_sha256}\n".encode())
                size_bytes = os.fstat(handle).st_size
            finally:
                os.close(handle)
            if size_bytes > 2 * _MAX_KEPT * _LINE_BYTES:
                write_whole(path, path.read_bytes()[-_MAX_KEPT * _LINE_BYTES :])
        except OSError as error:
            _log.debug("it was not noted in %s that a record applies: %s", path, error)


def _read(path: Path) -> set[str]:
    """A torn line names no record, and costs the next one."""
    try:
        content, stat = read_whole(path, max_bytes=2 * _MAX_KEPT * _LINE_BYTES)
    except OSError:
        return set()
    return set(content.decode("ascii", "replace").split("\n")) - {""} if is_own(stat) else set()


def _tvm() -> str:
    """What decides how a trace applies: this client, TVM's version, and its libraries as they lie on disk."""
    import tvm
    import tvm_ffi
    from tvm.libinfo import package_lib_paths

    libraries = sorted(
        entry.path
        for folder in package_lib_paths()
        if folder.is_dir()
        for entry in os.scandir(folder)
        if entry.name.startswith("libtvm")
    )
    stats = [(path, os.stat(path).st_size, os.stat(path).st_mtime_ns) for path in libraries]  # noqa: PTH116
    said = repr((VERSION, tvm.__version__, tvm_ffi.__version__, stats))
    return hashlib.sha256(said.encode()).hexdigest()[:16]
