"""MetaSchedule's JSON database, read line by line: a torn or foreign line costs that line.

The files may be larger than memory: of the workloads only places are kept, of the records a bounded number
until they are sent. They are the user's own files, as stock TVM would load them.
"""

import contextlib
import json
import math
import operator
import re
from array import array
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from tilefarm import module
from tilefarm import target as targets
from tilefarm.errors import ImportFilesError, ModuleError, TargetError, TraceError
from tilefarm.stockfiles import RECORDS, WORKLOADS
from tilefarm.trace import renamed
from tilefarm.trace_check import check_trace

#: Records of one request.
_BATCH = 64
#: Of their lines and the module; the service takes 4 MiB.
_BATCH_CHARS = 1 << 20
#: Records that wait for others of their workload.
_MAX_WAITING = 2_000
#: Stock writes a failure as 1e10 seconds.
_FAILED_SECS = 1e9
_MAX_RUNS = 1000
_OPTION = re.compile(r"-{1,2}([a-z_-]+)=(\S+)")


@dataclass(slots=True)
class Skipped:
    """What was left out, and why."""

    unreadable_lines: int = 0
    failed_measurements: int = 0
    unknown_targets: int = 0
    unusable_workloads: int = 0
    unusable_traces: int = 0

    def counts(self) -> dict[str, int]:
        return asdict(self)


@dataclass(slots=True, kw_only=True)
class Batch:
    """Records of one workload on one target."""

    shash: str
    #: Canonical module JSON text.
    module: str
    #: Canonical target.
    target: dict[str, Any]
    #: Traces and run_secs.
    records: list[tuple[Any, list[float]]] = field(default_factory=list)
    #: Of the module and of the records' lines.
    chars: int = 0


def read(directory: Path, skipped: Skipped) -> Iterator[Batch]:
    """ImportFilesError where a file is not there."""
    with contextlib.ExitStack() as files:
        try:
            workloads = files.enter_context((directory / WORKLOADS).open("rb"))
            records = files.enter_context((directory / RECORDS).open("rb"))
        except OSError as error:
            raise ImportFilesError(f"{directory} holds no database of MetaSchedule: {error}") from error
        yield from _batches(_Workloads(workloads), records, skipped)


class _Workloads:
    """By index; only the place of each line is kept."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        #: Eight bytes each: there may be millions.
        self._places = array("Q")
        place = 0
        for line in file:
            self._places.append(place)
            place += len(line)

    def read(self, index: int) -> module.Workload | None:
        """None where there is no such line, or no workload on it."""
        from tvm.s_tir.meta_schedule.database import Workload

        if not 0 <= index < len(self._places):
            return None
        self._file.seek(self._places[index])
        found = _parsed(self._file.readline())
        try:
            return module.workload_of(Workload.from_json(found).mod)
        except (ModuleError, ValueError, TypeError, AttributeError, KeyError, IndexError, RuntimeError):
            return None


def _batches(workloads: _Workloads, records: BinaryIO, skipped: Skipped) -> Iterator[Batch]:
    waiting: dict[tuple[int, str], Batch] = {}
    count = 0
    for line in records:
        found = _record(line, skipped)
        if found is None:
            continue
        index, trace, run_secs, target = found
        key = (index, targets.key(target))
        if key not in waiting:
            workload = workloads.read(index)
            if workload is None:
                skipped.unusable_workloads += 1
                continue
            text = module.to_json(workload.module)
            waiting[key] = Batch(shash=workload.shash, module=text, target=target, chars=len(text))
        try:
            check_trace(trace)
        except TraceError:
            skipped.unusable_traces += 1
            continue
        waiting[key].records.append((renamed(trace, "main"), run_secs))
        count += 1
        waiting[key].chars += len(line)
        if len(waiting[key].records) == _BATCH or waiting[key].chars >= _BATCH_CHARS:
            count -= len(waiting[key].records)
            yield waiting.pop(key)
        if count >= _MAX_WAITING or len(waiting) >= _MAX_WAITING:
            yield from (batch for batch in waiting.values() if batch.records)
            waiting.clear()
            count = 0
    yield from (batch for batch in waiting.values() if batch.records)


def _record(line: bytes, skipped: Skipped) -> tuple[int, Any, list[float], dict[str, Any]] | None:
    try:
        index, (trace, run_secs, target, _) = _parsed(line)
        index, secs = operator.index(index), [float(each) for each in run_secs]
    except (ValueError, TypeError, OverflowError):
        skipped.unreadable_lines += 1
        return None
    if not 0 < len(secs) <= _MAX_RUNS or not all(0 < each < _FAILED_SECS for each in secs):
        skipped.failed_measurements += 1
        return None
    try:
        return index, trace, secs, targets.canonical(_target(target))
    except TargetError:
        skipped.unknown_targets += 1
        return None


def _target(found: Any) -> Any:
    """A target as stock writes it; older ones are a command line."""
    if not isinstance(found, str):
        return found
    kind, _, options = found.partition(" ")
    target: dict[str, Any] = {"kind": kind}
    for name, value in _OPTION.findall(options):
        plain = value.strip("'\"")
        if name in ("mattr", "keys"):
            target[name] = plain.split(",")
        else:
            target[name] = int(plain) if plain.isdecimal() else plain
    return target


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line, parse_constant=lambda _: math.inf)
    except (ValueError, RecursionError):
        return None
