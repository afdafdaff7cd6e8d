"""on_miss="submit": what a compile missed is sent to the farm, and the compile does not wait for it.

What one module missed is one job, under an idempotency key made of what it is: a hundred compilers that miss
the same make one job a day. A failure to submit is a line in the log.
"""

import hashlib
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilefarm.background import Background
from tilefarm.client import Client, Limits
from tilefarm.errors import ProblemError, TilefarmError
from tilefarm.joined_module import joined
from tilefarm.miss import MAX_TRIALS

#: The end of the process waits for what is still to be sent, at most so long.
_LEAVE_SECS = 2.0
#: A compile asks for its functions one soon after another; what comes later is another job.
_GATHER_SECS = 1.0
#: Of the modules' JSON, source locations and all, in one job: the service takes 4 MiB without them.
_MAX_JOB_BYTES = 4 << 20
#: The service takes so many in one job.
_MAX_JOB_FUNCTIONS = 500
#: A person's jobs go first.
_PRIORITY = -10
_log = logging.getLogger("tilefarm")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A workload without a record."""

    function: str
    shash: str
    #: Module JSON text, source locations and all: they stay here.
    module: str
    target: Mapping[str, Any]
    target_key: str
    tvm_version: str
    #: Tells the module that is being compiled from another; 0 where it cannot be seen.
    compiled_id: int = 0
    #: How often that module calls the function.
    calls: int = 1


class Submitter:
    """Jobs are sent once nothing was missed for a while, or when the connection is left."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._background: Background[Wanted] = Background(
            self._send, leave_secs=_LEAVE_SECS, gather_secs=_GATHER_SECS
        )

    def submit(self, wanted: Wanted) -> None:
        """Returns at once."""
        self._background.put(wanted)

    def leave(self) -> None:
        self._background.leave()

    def _send(self, missed: list[Wanted]) -> None:
        for wanted in _jobs(missed):
            name = _name(wanted)
            try:
                job = self._job(wanted, name)
            except TilefarmError as error:
                if isinstance(error, ProblemError) and error.code == "idempotency_key_reused":
                    continue  # another compiler calls the same workloads by other names
                _log.warning("%s was not submitted: %s", name, error)
            else:
                _log.info("%s is tuned by job %s", name, job)

    def _job(self, wanted: Sequence[Wanted], name: str) -> str:
        functions = _by_name(wanted)
        job = self._client.submit(
            joined({function: each.module for function, each in functions.items()}),
            wanted[0].target,
            Limits(max_trials=MAX_TRIALS * len(wanted), priority=_PRIORITY),
            idempotency_key=_idempotency_key(wanted, int(time.time() // 86_400)),
            name=name,
            weights={function: float(each.calls) for function, each in functions.items()},
        )
        return job.id


def _jobs(missed: Sequence[Wanted]) -> Iterator[list[Wanted]]:
    """What one module missed on one target, in parts where the service would not take it at once."""
    groups: dict[tuple[int, str, str], list[Wanted]] = {}
    for wanted in missed:
        key = (wanted.compiled_id, wanted.target_key, wanted.tvm_version)
        groups.setdefault(key, []).append(wanted)
    for together in groups.values():
        part: list[Wanted] = []
        for wanted in together:
            size = sum(len(each.module) for each in part) + len(wanted.module)
            if part and (size > _MAX_JOB_BYTES or len(part) == _MAX_JOB_FUNCTIONS):
                yield part
                part = []
            part.append(wanted)
        yield part


def _by_name(wanted: Sequence[Wanted]) -> dict[str, Wanted]:
    """Functions of several modules, where those cannot be told apart, may share a name."""
    named: dict[str, Wanted] = {}
    for each in wanted:
        name = each.function if each.function not in named else f"{each.function}_{each.shash}"
        named[name] = each
    return named


def _name(wanted: Sequence[Wanted]) -> str:
    more = f" and {len(wanted) - 1} more" if len(wanted) > 1 else ""
    return wanted[0].function[: 200 - len(more)] + more


def _idempotency_key(wanted: Sequence[Wanted], day: int) -> str:
    shashes = " ".join(sorted(each.shash for each in wanted))
    text = f"{shashes} {wanted[0].target_key} {wanted[0].tvm_version} {day}"
    return "miss-" + hashlib.sha256(text.encode()).hexdigest()[:40]
