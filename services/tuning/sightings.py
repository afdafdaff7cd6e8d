"""What one replica has seen of trials and workers, look after look: no single look says for how long.

All of it is forgotten at a restart without harm: it only waits anew.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from db.dispatched import DispatchedTrial
from db.fleet import FleetWorker
from db.states import WorkerRole

#: Trials of each kind, and workers, that are remembered at most; the oldest are forgotten first.
_MOST_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Of a dispatched trial that nobody holds."""

    #: For so long it has been as it is: sent, or started by this very worker, and held by nobody.
    unheld_secs: float
    #: Attempts of it before this one that live workers had started and let go.
    let_go: int = 0
    #: Attempts of it that count as lost, though their workers were only silent and are heard again.
    returned: int = 0
    #: Targets and roles of workers that take chunks and held nothing in two heartbeats one after the other.
    idle: frozenset[tuple[int, WorkerRole]] = frozenset()


class Sightings:
    """Of one replica; times are those of time.monotonic()."""

    def __init__(self) -> None:
        self._now = 0.0
        #: By (trial, attempt, the worker that started it).
        self._unheld_since: dict[tuple[int, int, str | None], float] = {}
        #: By worker.
        self._idle_since: dict[str, float] = {}
        self._idle: frozenset[tuple[int, WorkerRole]] = frozenset()
        self._let_go = Counter[int]()
        self._returned = Counter[int]()
        #: By worker that was lost: trials that count it.
        self._missing: dict[str, list[int]] = {}

    def look(self, unheld: Iterable[DispatchedTrial], workers: Sequence[FleetWorker], *, now: float) -> None:
        """`unheld`: all trials under way that nobody holds; what is in neither list is forgotten."""
        self._now = now
        self._unheld_since = {key: self._unheld_since.get(key, now) for key in map(_key, unheld)}
        idle = [worker for worker in workers if worker.accepts and not worker.holding]
        self._idle_since = {worker.id: self._idle_since.get(worker.id, now) for worker in idle}
        # Between two chunks a busy worker may hold nothing for the moment of one heartbeat.
        self._idle = frozenset(
            (w.target_id, w.role) for w in idle if now - self._idle_since[w.id] > w.silent_secs
        )
        for worker in workers:
            if worker.alive:
                for trial_id in self._missing.pop(worker.id, ()):
                    _count(self._returned, trial_id)

    def of(self, trial: DispatchedTrial) -> Seen:
        """One of those that `look` was told of just now."""
        return Seen(
            unheld_secs=self._now - self._unheld_since[_key(trial)],
            let_go=self._let_go[trial.id],
            returned=self._returned[trial.id],
            idle=self._idle,
        )

    def note_let_go(self, trial: DispatchedTrial) -> None:
        """It is rung again, and its worker lives."""
        _count(self._let_go, trial.id)

    def note_lost(self, trial: DispatchedTrial) -> None:
        """It is rung again; its worker, if it had one, died or is silent."""
        if trial.worker_id is not None:
            self._missing.setdefault(trial.worker_id, []).append(trial.id)
            _forget(self._missing)


def _count(counter: Counter[int], trial_id: int) -> None:
    counter[trial_id] = counter.pop(trial_id, 0) + 1
    _forget(counter)


def _forget(remembered: dict[Any, Any]) -> None:
    if len(remembered) > _MOST_REMEMBERED:
        del remembered[next(iter(remembered))]


def _key(trial: DispatchedTrial) -> tuple[int, int, str | None]:
    # The worker is part of it: how long a trial waited to be started says nothing of its worker.
    return trial.id, trial.attempt, trial.worker_id
