"""MetaSchedule's own files: `database_workload.json` and `database_tuning_record.json`, written line by line.

Stock's JSONDatabase replays every trace when it opens them and fails on a single bad line: only what was
applied here is written, and the files appear together or not at all. Where a record came from stands beside
them, in a file that stock does not read.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO

from tilefarm import target as targets
from tilefarm.applied import Applied
from tilefarm.errors import ExportError

WORKLOADS = "database_workload.json"
RECORDS = "database_tuning_record.json"
PROVENANCE = "database_provenance.json"
_NAMES = (WORKLOADS, RECORDS, PROVENANCE)


class StockFiles:
    """A context manager; it holds a digest of each workload in memory, and nothing of the records."""

    def __init__(self, directory: Path) -> None:
        """ExportError where the directory holds such files already: stock's are appended to, not replaced."""
        self._directory = directory
        self._files: dict[str, TextIO] = {}
        #: Line of each workload, by the SHA-256 of its module's text.
        self._workloads: dict[bytes, int] = {}
        self.count = 0

    def __enter__(self) -> Self:
        there = [name for name in _NAMES if (self._directory / name).exists()]
        if there:
            raise ExportError(f"{self._directory} holds {there[0]} already; name another directory")
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            for name in _NAMES:
                self._files[name] = self._temporary(name).open("w", encoding="utf-8")
        except OSError as error:
            raise ExportError(f"{self._directory} cannot be written: {error}") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            for file in self._files.values():
                file.close()
            for name in _NAMES:
                if kind is None:
                    self._temporary(name).replace(self._directory / name)
                else:
                    self._temporary(name).unlink(missing_ok=True)
        except OSError as failure:
            raise ExportError(f"{self._directory} cannot be written: {failure}") from failure

    def add(self, found: Applied, target: Any, provenance: Mapping[str, Any]) -> None:
        """A record, and its workload where that is new; `target` is the tvm Target."""
        record = found.tuning_record(target)
        digest = hashlib.sha256(found.record.module.encode()).digest()
        try:
            if digest not in self._workloads:
                self._workloads[digest] = len(self._workloads)
                self._line(WORKLOADS, record.workload.as_json())
            self._line(RECORDS, [self._workloads[digest], _record(found, record)])
            self._line(PROVENANCE, dict(provenance))
        except OSError as error:
            raise ExportError(f"{self._directory} cannot be written: {error}") from error
        self.count += 1

    def _line(self, name: str, value: Any) -> None:
        self._files[name].write(json.dumps(value) + "\n")

    def _temporary(self, name: str) -> Path:
        return self._directory / f".new-{name}"


def _record(found: Applied, record: Any) -> list[Any]:
    """As stock reads it. Its own `as_json` fails on a trace that lays out a buffer anew."""
    arguments = [targets.plain(each.as_json()) for each in record.args_info]
    return [found.record.trace, list(found.record.run_secs), targets.plain(record.target.export()), arguments]
