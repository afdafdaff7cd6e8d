"""What failures say, kept in the process: their words stand in wide rows, and never change."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from sqlalchemy.orm import Session

from db.failures import read_failures
from db.states import Outcome
from services.dashboard.messages import normalised

#: Of one statement.
_READ = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A failure with the message that groups it."""

    trial_id: int
    outcome: Outcome
    message: str
    task_name: str
    worker_id: str | None


class Causes:
    """Of the failures asked for last; safe to ask from many threads."""

    def __init__(self, *, kept: int = 20_000) -> None:
        self._kept = kept
        self._lock = threading.Lock()
        self._known: dict[int, Cause] = {}

    def of(self, session: Session, trial_ids: Sequence[int]) -> list[Cause]:
        """In the order of the ids; those that are not known yet are read."""
        with self._lock:
            found = {trial_id: self._known[trial_id] for trial_id in trial_ids if trial_id in self._known}
        unknown = [trial_id for trial_id in trial_ids if trial_id not in found]
        for start in range(0, len(unknown), _READ):
            found |= _read(session, unknown[start : start + _READ])
        if unknown:
            self._keep({trial_id: found[trial_id] for trial_id in unknown if trial_id in found})
        return [found[trial_id] for trial_id in trial_ids if trial_id in found]

    def _keep(self, read: dict[int, Cause]) -> None:
        with self._lock:
            self._known |= read
            for trial_id in list(islice(self._known, max(0, len(self._known) - self._kept))):
                del self._known[trial_id]


def _read(session: Session, trial_ids: Sequence[int]) -> dict[int, Cause]:
    return {
        failure.trial_id: Cause(
            trial_id=failure.trial_id,
            outcome=failure.outcome,
            message=normalised(failure.error),
            task_name=failure.task_name,
            worker_id=failure.worker_id,
        )
        for failure in read_failures(session, trial_ids)
    }
