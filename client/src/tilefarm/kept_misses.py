"""The misses of one service, kept on disk: one small file that a lookup reads and writes as a whole.

A compile that misses everything waits for it, so there is no file for each. Two processes that write at once
may lose one another's: those are asked again. It asks no service.
"""

import hashlib
import json
import logging
import math
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from tilefarm.answers import Missing
from tilefarm.whole import read_whole, write_whole

#: Those that were confirmed last stay.
_MAX_KEPT = 1_000
_MAX_NEAREST_CHARS = 500
_DIGEST_BYTES = 32
_MAX_FILE_BYTES = 4 << 20
_log = logging.getLogger("tilefarm")


class KeptMisses:
    """By question; times are seconds since the epoch."""

    def __init__(self, path: Path) -> None:
        self._path = path
        #: What the file held, and the stat by which one sees that it still does.
        self._read: tuple[tuple[int, int, int], dict[str, tuple[float, str | None]]] | None = None

    def get(self, question: str) -> tuple[Missing, float] | None:
        """With its age in seconds; None where it is not kept."""
        found = self._all().get(question)
        if found is None:
            return None
        return Missing(nearest=found[1]), time.time() - found[0]

    def add(self, misses: Mapping[str, Missing]) -> None:
        """Nothing where it cannot be written."""
        now = time.time()
        kept = dict(self._all())
        for question, miss in misses.items():
            kept.pop(question, None)
            kept[question] = (now, miss.nearest[:_MAX_NEAREST_CHARS] if miss.nearest else None)
        newest = list(kept.items())[-max(_MAX_KEPT, len(misses)) :]
        body = json.dumps(dict(newest), separators=(",", ":")).encode()
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_whole(self._path, hashlib.sha256(body).digest() + body)
        except OSError as error:
            _log.debug("misses were not kept in %s: %s", self._path, error)

    def confirm(self, questions: Collection[str]) -> None:
        """The service said today that there is still nothing."""
        kept = self._all()
        self.add({question: Missing(nearest=kept[question][1]) for question in questions if question in kept})

    def _all(self) -> dict[str, tuple[float, str | None]]:
        try:
            stat = self._path.stat()
            version = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if self._read is None or self._read[0] != version:
                content, _ = read_whole(self._path, max_bytes=_MAX_FILE_BYTES)
                self._read = (version, _parsed(content))
        except OSError:
            return {}
        return self._read[1]


def _parsed(content: bytes) -> dict[str, tuple[float, str | None]]:
    """Nothing where the file is torn, or is not one of these."""
    body = content[_DIGEST_BYTES:]
    if hashlib.sha256(body).digest() != content[:_DIGEST_BYTES]:
        return {}
    try:
        found: Any = json.loads(body)
        return {str(question): _entry(*entry) for question, entry in found.items()}
    except (ValueError, TypeError, AttributeError, RecursionError):
        return {}


def _entry(at: Any, nearest: Any) -> tuple[float, str | None]:
    secs = float(at)
    if not math.isfinite(secs):
        raise ValueError("a miss has no time")
    return secs, nearest if isinstance(nearest, str) else None
