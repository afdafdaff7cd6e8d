"""Answers of the service kept on disk for all processes of a user: a compile asks only for what is new.

A file is named by the hash of its question, begins with the hash of its content, and appears whole or not at
all: a torn or tampered one is no answer. When it was confirmed last is its modification time. A directory
that cannot be read or written (a full disk, a read-only home) is no cache and no error. It asks no service.
"""

import contextlib
import hashlib
import json
import logging
import os
import re
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilefarm import graph
from tilefarm import target as targets
from tilefarm.answers import KeptTexts, Missing, Record, parse_record, trace_text
from tilefarm.errors import BadAnswerError, TargetError
from tilefarm.kept_misses import KeptMisses
from tilefarm.whole import is_own, read_whole, write_whole

DEFAULT_MAX_BYTES = 256 << 20
#: No single answer is larger.
_MAX_ANSWER_BYTES = 64 << 20
#: Files are spread over so many directories; each may fill its share of the whole.
_SHARDS = 64
_DIGEST_BYTES = 32
#: By so much clocks of hosts that share a directory may differ.
_CLOCK_SECS = 60.0
#: A temporary file that is older was left by a process that died.
_ABANDONED_SECS = 3600.0
_PROFILE = re.compile(r"[A-Za-z0-9._-]{1,100}")
_log = logging.getLogger("tilefarm")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    answer: Record | Missing
    #: Since the service said so last.
    age_secs: float


class DiskCache:
    def __init__(self, directory: Path, *, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self._directory = directory
        self._folder = str(directory)
        self._misses = KeptMisses(directory / "misses")
        self._shard_bytes = max_bytes // _SHARDS

    @classmethod
    def of_service(cls, cache_dir: Path, url: str, *, max_bytes: int = DEFAULT_MAX_BYTES) -> "DiskCache":
        """The answers of one service, apart from those of others."""
        service = hashlib.sha256(url.encode()).hexdigest()[:16]
        return cls(cache_dir / "answers-3" / service, max_bytes=max_bytes)

    def read(self, question: str, tvm_version: str) -> Kept | None:
        """None where there is no whole, sensible answer of this TVM version."""
        found = _read(f"{self._folder}/{_shard(question)}/{question}")
        if found is None:
            missed = self._misses.get(question)
            return None if missed is None else _kept(*missed)
        body, texts, stat = found
        if not isinstance(body, dict) or body.get("question") != question:
            return None
        try:
            # What only this user can have written was checked before it was.
            kept = KeptTexts(module=texts[0], trace=texts[1], are_checked=is_own(stat))
            record = parse_record(body.get("record"), tvm_version, kept=kept)
        except BadAnswerError:
            return None
        return _kept(record, time.time() - stat.st_mtime)

    def write(self, found: Mapping[str, Record | Missing]) -> None:
        """Answers by question; of a record only one whose module is safe to load."""
        misses = {question: answer for question, answer in found.items() if isinstance(answer, Missing)}
        for question, answer in found.items():
            if isinstance(answer, Record):
                if answer.is_checked or graph.is_safe(answer.module):
                    said = answer.as_json()
                    texts = str(said.pop("module")), trace_text(said.pop("trace"))
                    self._store(self._path(question), {"question": question, "record": said}, texts)
            else:
                with contextlib.suppress(OSError):
                    self._path(question).unlink(missing_ok=True)
        if misses and self._shard_bytes:
            self._misses.add(misses)

    def confirm(self, questions: Collection[str]) -> None:
        """The service said today that the kept answers still hold."""
        missed = []
        for question in questions:
            try:
                os.utime(self._path(question))
            except OSError:
                missed.append(question)
        if missed:
            self._misses.confirm(missed)

    def read_profile(self, name: str) -> dict[str, Any] | None:
        """The canonical target of a profile, as the service told it last."""
        found = _read(self._profile_path(name)) if _PROFILE.fullmatch(name) else None
        try:
            return None if found is None else targets.canonical(found[0]["target"])
        except (KeyError, TypeError, TargetError):
            return None

    def write_profile(self, name: str, target: dict[str, Any]) -> None:
        if _PROFILE.fullmatch(name):
            self._store(self._profile_path(name), {"target": target})

    def _path(self, question: str) -> Path:
        return self._directory / _shard(question) / question

    def _profile_path(self, name: str) -> Path:
        return self._directory / "targets" / name

    def _store(self, path: Path, body: dict[str, Any], texts: tuple[str, str] = ("", "")) -> None:
        content = _content(body, texts)
        if len(content) > self._shard_bytes:
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            _make_room(path.parent, self._shard_bytes - len(content))
            write_whole(path, content)
        except OSError as error:
            _log.debug("an answer was not kept in %s: %s", self._directory, error)


def _shard(question: str) -> str:
    return f"{int(question[:8], 16) % _SHARDS:02x}"


def _kept(answer: Record | Missing, age_secs: float) -> Kept | None:
    """None where it comes from the future: this host's clock was wrong, or is."""
    return None if age_secs < -_CLOCK_SECS else Kept(answer=answer, age_secs=max(age_secs, 0.0))


def usage(cache_dir: Path) -> tuple[int, int]:
    """How many answers of all services are kept, and their bytes."""
    count, size_bytes = 0, 0
    for path in (cache_dir / "answers-3").glob("*/[0-9a-f][0-9a-f]/*"):
        with contextlib.suppress(OSError):
            size_bytes += path.stat().st_size
            count += 1
    return count, size_bytes


def _content(body: dict[str, Any], texts: tuple[str, str]) -> bytes:
    """A line of JSON; then the texts of a trace and a module, which would be most of what there is to parse.

    Not compressed: a compile that finds it here would wait for that.
    """
    module, trace = texts
    content = f"{json.dumps(body, separators=(',', ':'))}\n{trace}\n{module}".encode()
    return hashlib.sha256(content).digest() + content


def _read(path: str | Path) -> tuple[Any, tuple[str, str], os.stat_result] | None:
    """What a file holds, texts apart; None where it is not there, torn, or no such file."""
    try:
        found, stat = read_whole(path, max_bytes=_MAX_ANSWER_BYTES)
        content = memoryview(found)
        if hashlib.sha256(content[_DIGEST_BYTES:]).digest() != content[:_DIGEST_BYTES]:
            return None
        body, trace, module = str(content[_DIGEST_BYTES:], "utf-8").split("\n", 2)
        return json.loads(body), (module, trace), stat
    except (OSError, ValueError, RecursionError):
        return None


def _make_room(directory: Path, room_bytes: int) -> None:
    """Drops what was confirmed longest ago; another process may drop the same."""
    found = []
    with os.scandir(directory) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                stat = entry.stat(follow_symlinks=False)
                found.append((stat.st_mtime, stat.st_size, entry.path, entry.name.startswith(".new-")))
    abandoned_before = time.time() - _ABANDONED_SECS
    used_bytes = sum(size for _, size, _, _ in found)
    for mtime, size, path, is_temporary in sorted(found):
        if is_temporary and mtime > abandoned_before:
            continue
        if used_bytes <= room_bytes and not is_temporary:
            continue
        with contextlib.suppress(OSError):
            Path(path).unlink(missing_ok=True)
            used_bytes -= size
