"""What becomes of a miss: it is told once, kept as a ready job, and sent to the farm where that is wanted.

A compile waits for none of it: what it missed is dumped when the connection is closed or the process ends,
and what is left to do then is done by threads on plain data. What is sent to the farm is dumped at once.
"""

import atexit
import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilefarm import graph, module, saving
from tilefarm import target as targets
from tilefarm.answers import Answer, Missing, Unanswered
from tilefarm.background import Background
from tilefarm.errors import ModuleError
from tilefarm.miss import MAX_TRIALS, Miss, OnMiss, submit_command, tell
from tilefarm.submitting import Submitter, Wanted
from tilefarm.visible import LastCompiled
from tilefarm.whole import write_whole

#: Modules held until their compile is over.
_MAX_UNKEPT = 256
#: The end of the process waits so long for files that are still to be written.
_LEAVE_SECS = 2.0
_log = logging.getLogger("tilefarm")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """A ready job that is to be written."""

    path: Path
    name: str
    #: Module JSON text, source locations and all.
    module: str
    target: Mapping[str, Any]


class Misses:
    """Of one connection."""

    def __init__(self, on_miss: OnMiss, *, cache_dir: Path, submitter: Submitter | None) -> None:
        self._on_miss = on_miss
        self._directory = cache_dir / "misses"
        #: None until it was tried.
        self._writable: bool | None = None
        self._submitter = submitter
        self._compiled = LastCompiled()
        #: Whether TVM has survived to save what was missed, so far.
        self._saves = True
        self._told: set[tuple[str, str, str]] = set()
        self._files: Background[_Job] = Background(_write_all, leave_secs=_LEAVE_SECS)
        #: Ready jobs to be: path, function, module, target. A compile does not wait for TVM to dump them.
        self._unkept: list[tuple[Path, str, _Saved, Mapping[str, Any]]] = []
        # Runs before that of `_files`, which was registered first.
        atexit.register(self._keep)

    def told(
        self, workload: module.Workload, target: Mapping[str, Any], answer: Answer, name: str | None
    ) -> None:
        """Once for each workload, target and cause."""
        missing = isinstance(answer, Missing)
        target_key = targets.key(target)
        cause = (workload.shash, target_key, "" if missing else "unanswered")
        if cause in self._told:
            return
        self._told.add(cause)
        saved = _Saved(workload)
        function = name or workload.name
        submitted = missing and self._submit(workload, target, function, saved)
        miss = Miss(
            function=function,
            shash=workload.shash,
            target=target,
            reason=answer.reason if isinstance(answer, Unanswered) else "nobody has tuned it",
            nearest=answer.nearest if isinstance(answer, Missing) else None,
            command=None if self._on_miss == "silent" else self._command(function, target, saved),
            submitted=submitted,
        )
        tell(miss, self._on_miss)

    def forget(self) -> None:
        self._told.clear()
        self._keep()

    def leave(self) -> None:
        """Writes and sends what is left, for a bounded time."""
        self._keep()
        self._files.leave()
        if self._submitter is not None:
            self._submitter.leave()

    def _submit(
        self, workload: module.Workload, target: Mapping[str, Any], function: str, saved: "_Saved"
    ) -> bool:
        """Whether it is on its way to the farm: nobody tunes what the compile makes a view of."""
        if self._submitter is None:
            return False
        self._compiled.look()
        text = None if self._compiled.is_view(workload.asked) else self._text(saved)
        if text is None:
            return False
        wanted = Wanted(
            function=function,
            shash=workload.shash,
            module=text,
            target=target,
            target_key=targets.key(target),
            tvm_version=module.tvm_version(),
            compiled_id=self._compiled.id,
            calls=self._compiled.calls(function),
        )
        self._submitter.submit(wanted)
        return True

    def _text(self, saved: "_Saved") -> str | None:
        """None where TVM does not save it, and from then on: a compile does not wait for that again."""
        text = saved.text() if self._saves else None
        self._saves = text is not None
        return text

    def _keep(self) -> None:
        """Has the ready jobs written whose modules were not dumped yet, on the thread that TVM runs on."""
        waiting, self._unkept = self._unkept, []
        for path, name, saved, target in waiting:
            if not path.parent.is_dir():
                continue  # somebody has cleared the cache meanwhile
            text = self._text(saved)
            if text is not None:
                self._files.put(_Job(path=path, name=name, module=text, target=target))

    def _command(self, function: str, target: Mapping[str, Any], saved: "_Saved") -> str:
        """The command that would tune it; what it names is there, or soon will be."""
        path = self._directory / f"{saved.shash}-{targets.key(target)[:12]}.json"
        if not path.exists():
            if self._writable is None:
                self._writable = _is_writable(self._directory)
            if not self._writable:
                return submit_command(None, target)
            self._unkept.append((path, function, saved, target))
            # A function that is told of the miss may want the file now; who reads a log has time.
            if callable(self._on_miss) or len(self._unkept) >= _MAX_UNKEPT:
                self._keep()
        return submit_command(path, target)


class _Saved:
    """The workload's JSON, made once and only when it is needed: TVM takes half a millisecond for it."""

    def __init__(self, workload: module.Workload) -> None:
        self.shash = workload.shash
        self._module = workload.module
        self._text: str | None = None

    def text(self) -> str | None:
        """None where TVM does not save the module."""
        if self._text is None:
            try:
                self._text = saving.raw_json(self._module)
            except ModuleError as error:
                _log.warning("workload %s cannot be kept or sent: %s", self.shash, error)
        return self._text


def _is_writable(directory: Path) -> bool:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        _log.debug("missed modules are not kept: %s", error)
        return False
    return os.access(directory, os.W_OK)


def _write_all(jobs: list[_Job]) -> None:
    """Each whole or not at all: several compiles may miss the same workload at once."""
    for job in jobs:
        rest = json.dumps({"name": job.name, "target": dict(job.target), "max_trials": MAX_TRIALS})
        # The module is JSON already: parsing it once more would take the compile's time.
        body = f'{{"module": {graph.without_spans(job.module)}, {rest[1:]}'
        try:
            write_whole(job.path, body.encode())
        except OSError as error:
            _log.warning("the missed module %s was not kept: %s", job.name, error)
