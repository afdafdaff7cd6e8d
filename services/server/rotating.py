"""Log files that do not grow for ever: whole lines, put aside by size, a bounded number of files.

A process writes to a pipe, and a thread of ours takes its lines to the file. So no line is lost or torn while
files are exchanged, whatever writes it: a library in C, a traceback of an interpreter that dies, Valkey. What
is still in the pipe when this process is killed is lost.
"""

import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import BinaryIO, TextIO

#: Longer ones are cut.
_MAX_LINE_BYTES = 1 << 20
_DRAIN_SECS = 2.0


class RotatingLog:
    """`api.log`, and as many of `api.log.1`, `api.log.2`, … as there may be; the oldest is dropped."""

    def __init__(self, path: Path, *, max_bytes: int, max_files: int) -> None:
        self.path = path
        self._files = _Files(path, max_bytes=max_bytes, max_files=max_files)
        self._carriers: list[threading.Thread] = []

    def pipe(self) -> int:
        """Where one more writer writes: a file descriptor, the caller's to close.

        Raises OSError where the file cannot be opened; one that was removed meanwhile is there again.
        """
        self._files.take()
        source, sink = os.pipe()
        carrier = threading.Thread(
            target=self._carry, args=(os.fdopen(source, "rb"),), name=f"log {self.path.name}", daemon=True
        )
        carrier.start()
        self._carriers = [each for each in self._carriers if each.is_alive()] + [carrier]
        return sink

    @contextmanager
    def opened(self) -> Iterator[TextIO]:
        """The same for this process's own lines; at the end all of them are in the file."""
        with os.fdopen(self.pipe(), "w", encoding="utf-8", errors="backslashreplace", buffering=1) as stream:
            yield stream
        self.drain()

    def drain(self) -> None:
        """Wait, not for long, until what ended writers have written is in the file."""
        for carrier in self._carriers:
            carrier.join(_DRAIN_SECS)

    def last_lines(self, count: int) -> str:
        """Of writers that have ended."""
        self.drain()
        if not self.path.exists():
            return "it left no log"
        lines = self.path.read_text(encoding="utf-8", errors="replace").splitlines()[-count:]
        return "the end of its log:\n" + "\n".join(lines)

    def _carry(self, source: BinaryIO) -> None:
        last = b"\n"
        with source:
            while line := source.readline(_MAX_LINE_BYTES):
                self._write(line)
                last = line
        # Who was killed within a line must not spoil the first one of the next.
        if not last.endswith(b"\n"):
            self._write(b"\n")
        self._files.give_back()

    def _write(self, line: bytes) -> None:
        text = line.decode("utf-8", errors="backslashreplace")
        self._files.handle(logging.makeLogRecord({"msg": text}))


class _Files(RotatingFileHandler):
    """Nothing that befalls a disk ends or stalls those who write."""

    terminator = ""

    def __init__(self, path: Path, *, max_bytes: int, max_files: int) -> None:
        super().__init__(path, maxBytes=max_bytes, backupCount=max_files - 1, encoding="utf-8", delay=True)
        self._writers = 0

    def take(self) -> None:
        """For one more writer; the file is opened anew, as somebody may have removed it."""
        with self.lock or nullcontext():
            self._shut()
            self.stream = self._open()
            self._writers += 1

    def give_back(self) -> None:
        """After the last writer nothing is kept open."""
        with self.lock or nullcontext():
            self._writers -= 1
            if not self._writers:
                self._shut()

    def _shut(self) -> None:
        if self.stream is not None:
            self.stream.close()
            self.stream = None

    def doRollover(self) -> None:  # noqa: N802 - the library's name
        try:
            super().doRollover()
        except OSError:
            # They cannot be renamed now: lines go on into the file that is there.
            if self.stream is None:
                self.stream = self._open()

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the library's name
        """The disk is full, or gone: the line is lost, and the next one is tried."""
