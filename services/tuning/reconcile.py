"""The only retry: what to do with a trial that is under way. A pure decision, then one compare-and-set.

A message may be lost or doubled at any time; a worker may die with what it holds. A fresh heartbeat that
names the attempt is the only proof that somebody works on it.
"""

from collections.abc import Sequence
from enum import StrEnum

import structlog
from sqlalchemy import Engine

from db import attempts
from db.dispatched import DispatchedTrial
from db.fleet import FleetWorker
from db.session import transaction
from services.tuning.settings import TunerSettings

_log = structlog.get_logger(__name__)


class Verdict(StrEnum):
    KEEP = "keep"
    #: Back to the queue, for another attempt.
    RING = "ring"
    #: Too many workers were lost over it.
    GIVE_UP = "give_up"


def is_held(trial: DispatchedTrial, workers: Sequence[FleetWorker]) -> bool:
    """Whether a live worker's last heartbeat names this very attempt."""
    return any(worker.alive and (trial.id, trial.attempt) in worker.holding for worker in workers)


def judge(
    trial: DispatchedTrial, workers: Sequence[FleetWorker], settings: TunerSettings, *, unheld_secs: float
) -> Verdict:
    """What becomes of a dispatched trial; `unheld_secs`: for how long nobody was seen to hold it."""
    if not _is_lost(trial, workers, settings, unheld_secs=unheld_secs):
        return Verdict.KEEP
    return Verdict.GIVE_UP if trial.started_attempts >= settings.max_started_attempts else Verdict.RING


def carry_out(engine: Engine, trial: DispatchedTrial, verdict: Verdict) -> None:
    """Write a verdict, unless an outcome came in between."""
    with transaction(engine) as session:
        if verdict is Verdict.RING:
            done = attempts.ring_again(session, trial.id, attempt=trial.attempt)
        else:
            error = f"the farm lost {trial.started_attempts} workers over it"
            done = attempts.give_up(session, trial.id, attempt=trial.attempt, error=error)
    if done:
        _log.warning("trial_lost", trial_id=trial.id, attempt=trial.attempt, verdict=verdict)


def _is_lost(
    trial: DispatchedTrial, workers: Sequence[FleetWorker], settings: TunerSettings, *, unheld_secs: float
) -> bool:
    if is_held(trial, workers):
        return False
    if trial.overdue:
        return True
    if any(not worker.alive and (trial.id, trial.attempt) in worker.holding for worker in workers):
        return True
    if trial.worker_id is not None:
        alive = any(worker.alive and worker.id == trial.worker_id for worker in workers)
        # Its worker let go of it and lives: the outcome was lost, or is still on its way.
        return not alive or unheld_secs > settings.outcome_secs
    return _doorbell_is_lost(trial, workers, settings)


def _doorbell_is_lost(
    trial: DispatchedTrial, workers: Sequence[FleetWorker], settings: TunerSettings
) -> bool:
    """An idle worker of the target should have heard it by now; patience doubles with each attempt."""
    unheard = max(0, trial.attempt - 1 - trial.started_attempts)
    patience_secs = min(settings.unheard_secs * 2.0 ** min(unheard, 10), settings.deadline_secs * 10)
    crew = [w for w in workers if (w.target_id, w.role) == (trial.target_id, trial.role)]
    idle = any(worker.accepts and not worker.holding for worker in crew)
    return idle and trial.age_secs > patience_secs
