"""The only retry: what to do with a trial that is under way. A pure decision, then one compare-and-set.

A message may be lost or doubled at any time; a worker may die with what it holds. A fresh heartbeat that
names the attempt is the only proof that somebody works on it; that nobody does takes a heartbeat, too.
"""

from collections.abc import Iterable
from enum import StrEnum

import structlog
from sqlalchemy import Engine

from db import attempts
from db.dispatched import DispatchedTrial
from db.fleet import FleetWorker
from db.session import transaction
from services.tuning.settings import TunerSettings
from services.tuning.sightings import Seen

_log = structlog.get_logger(__name__)

#: Attempts without an outcome whose workers live, after which a trial is given up all the same: its job must
#: end.
MAX_LET_GO = 32
#: Patience doubles so many times at most.
_MOST_DOUBLINGS = 10


class Verdict(StrEnum):
    KEEP = "keep"
    #: Back to the queue, for another attempt.
    RING = "ring"
    #: The same, and the attempt does not count: its worker started it, let go of it, and lives.
    RING_UNCOUNTED = "ring_uncounted"
    #: Too many workers were lost over it.
    GIVE_UP = "give_up"


class Holders:
    """Who holds which attempts, by the last heartbeats: made once for all trials of a look."""

    def __init__(self, workers: Iterable[FleetWorker]) -> None:
        self.living: dict[str, FleetWorker] = {}
        self._held: set[tuple[int, int]] = set()
        self._held_by_dead: set[tuple[int, int]] = set()
        for worker in workers:
            if worker.alive:
                self.living[worker.id] = worker
            (self._held if worker.alive else self._held_by_dead).update(worker.holding)

    def hold(self, trial: DispatchedTrial) -> bool:
        """Whether a live worker's last heartbeat names this very attempt."""
        return (trial.id, trial.attempt) in self._held

    def held_when_they_died(self, trial: DispatchedTrial) -> bool:
        return (trial.id, trial.attempt) in self._held_by_dead


def judge(trial: DispatchedTrial, holders: Holders, settings: TunerSettings, seen: Seen) -> Verdict:
    """What becomes of a dispatched trial. Only workers that died over it count against it."""
    if holders.hold(trial):
        return Verdict.KEEP
    if trial.worker_id is None:
        return Verdict.RING if _never_arrives(trial, holders, settings, seen) else Verdict.KEEP
    living = holders.living.get(trial.worker_id)
    survived = seen.let_go + seen.returned
    if living is None:
        died = trial.started_attempts - seen.returned
        too_many = died >= settings.max_started_attempts or survived >= MAX_LET_GO
        return Verdict.GIVE_UP if too_many else Verdict.RING
    # It let go only if its heartbeats go on without the trial; then the outcome was lost, or is on its way.
    patience_secs = _doubled(settings.outcome_secs, seen.let_go, settings)
    if seen.unheld_secs - living.silent_secs <= patience_secs:
        return Verdict.KEEP
    return Verdict.GIVE_UP if survived >= MAX_LET_GO else Verdict.RING_UNCOUNTED


def carry_out(engine: Engine, trial: DispatchedTrial, verdict: Verdict, seen: Seen) -> bool:
    """Write a verdict; False where an outcome came in between."""
    with transaction(engine) as session:
        if verdict is Verdict.GIVE_UP:
            started = trial.started_attempts + seen.let_go
            live = seen.let_go + seen.returned
            error = f"{started} workers started it and none told its outcome; {live} of them live"
            done = attempts.give_up(session, trial.id, attempt=trial.attempt, error=error)
        else:
            counts = verdict is not Verdict.RING_UNCOUNTED
            done = attempts.ring_again(session, trial.id, attempt=trial.attempt, counts=counts)
    if done:
        _log.warning("trial_lost", trial_id=trial.id, attempt=trial.attempt, verdict=verdict)
    return done


def _never_arrives(trial: DispatchedTrial, holders: Holders, settings: TunerSettings, seen: Seen) -> bool:
    """Nobody has started it, and nobody will: whoever took it died, or the doorbell was lost."""
    if trial.overdue or holders.held_when_they_died(trial):
        return True
    # An idle worker of the target should have heard it by now; patience doubles with each attempt.
    unheard = max(0, trial.attempt - 1 - trial.started_attempts)
    idle = (trial.target_id, trial.role) in seen.idle
    return idle and trial.age_secs > _doubled(settings.unheard_secs, unheard, settings)


def _doubled(secs: float, times: int, settings: TunerSettings) -> float:
    return min(secs * 2.0 ** min(times, _MOST_DOUBLINGS), settings.deadline_secs * 10)
