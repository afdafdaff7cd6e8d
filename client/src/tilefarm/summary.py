"""What compiles of this process got from tilefarm: a line at exit, and one in a file for `tilefarm stats`.

The line at exit is a warning where something was missed or went wrong, else it is for whoever logs at INFO.
It asks no service.
"""

import atexit
import json
import logging
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tilefarm.stats import Counters, Stats
from tilefarm.whole import at_once

_FILE = "stats.jsonl"
#: Then the file is set aside, and the one set aside before is dropped.
_MAX_FILE_BYTES = 1 << 20
_log = logging.getLogger("tilefarm")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One process's questions to one service."""

    at: float
    url: str
    stats: Stats


class _Process:
    """The counters of this process by service, cache directory, and whether misses are told."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._totals: dict[tuple[str, Path, bool], Counters] = {}

    def counters(self, url: str, cache_dir: Path, *, aloud: bool) -> Counters:
        with self._lock:
            total = self._totals.setdefault((url, cache_dir, aloud), Counters())
        return Counters(total=total)

    def forget(self) -> None:
        """A forked child tells only what it was asked itself."""
        self._lock = threading.Lock()
        for total in self._totals.values():
            total.restart()

    def say(self) -> None:
        for (url, cache_dir, aloud), total in self._totals.items():
            stats = total.snapshot()
            if stats.hits + stats.near + stats.misses + stats.errors == 0:
                continue
            missed = stats.misses + stats.errors > 0
            _log.log(logging.WARNING if missed and aloud else logging.INFO, "tilefarm %s: %s", url, stats)
            _append(cache_dir / _FILE, Entry(at=time.time(), url=url, stats=stats))


_process = _Process()
counters = _process.counters
atexit.register(_process.say)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_process.forget)


def entries(cache_dir: Path) -> Iterator[Entry]:
    """What processes left, oldest first; torn lines are skipped."""
    for path in (cache_dir / f"{_FILE}.1", cache_dir / _FILE):
        try:
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue
        for line in lines:
            entry = _entry(line)
            if entry is not None:
                yield entry


def _entry(line: str) -> Entry | None:
    try:
        found: dict[str, Any] = json.loads(line)
        return Entry(at=float(found["at"]), url=str(found["url"]), stats=Stats(**found["stats"]))
    except (ValueError, TypeError, KeyError):
        return None


def _append(path: Path, entry: Entry) -> None:
    """One write of one short line: several processes may end at once."""
    line = json.dumps({"at": entry.at, "url": entry.url, "stats": asdict(entry.stats)}) + "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with open(path, "ab", buffering=0, opener=at_once) as file:
            file.write(line.encode())
            too_long = file.tell() > _MAX_FILE_BYTES
        if too_long:
            path.replace(path.with_name(f"{_FILE}.1"))
    except OSError as error:
        _log.debug("the statistics were not kept: %s", error)
