"""on_miss="submit": what a compile missed is sent to the farm, and the compile does not wait for it.

One workload is one job, under an idempotency key made of what it is: a hundred compilers that miss it make
one job a day. A failure to submit is a line in the log.
"""

import hashlib
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilefarm import graph
from tilefarm.background import Background
from tilefarm.client import Client, Limits
from tilefarm.errors import ProblemError, TilefarmError
from tilefarm.miss import MAX_TRIALS

#: The end of the process waits for what is still to be sent, at most so long.
_LEAVE_SECS = 2.0
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

    def idempotency_key(self, day: int) -> str:
        text = f"{self.shash} {self.target_key} {self.tvm_version} {day}"
        return "miss-" + hashlib.sha256(text.encode()).hexdigest()[:40]


class Submitter:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._background: Background[Wanted] = Background(self._send, leave_secs=_LEAVE_SECS)

    def submit(self, wanted: Wanted) -> None:
        """Returns at once."""
        self._background.put(wanted)

    def leave(self) -> None:
        self._background.leave()

    def _send(self, missed: list[Wanted]) -> None:
        for wanted in missed:
            try:
                job = self._job(wanted)
            except TilefarmError as error:
                if isinstance(error, ProblemError) and error.code == "idempotency_key_reused":
                    continue  # another compiler calls the same workload by another name
                _log.warning("%s was not submitted: %s", wanted.function, error)
            else:
                _log.info("%s is tuned by job %s", wanted.function, job)

    def _job(self, wanted: Wanted) -> str:
        job = self._client.submit(
            graph.without_spans(wanted.module),
            wanted.target,
            Limits(max_trials=MAX_TRIALS, priority=_PRIORITY),
            idempotency_key=wanted.idempotency_key(int(time.time() // 86_400)),
            name=wanted.function[:200],
        )
        return job.id
