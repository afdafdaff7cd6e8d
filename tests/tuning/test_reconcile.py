"""A trial is rung again only when nobody can be working on it; it is given up after three lost workers."""

from dataclasses import replace

import pytest

from db.dispatched import DispatchedTrial
from db.fleet import FleetWorker
from db.states import WorkerRole
from services.tuning.reconcile import Verdict, judge
from services.tuning.settings import TunerSettings

SETTINGS = TunerSettings(database_url="sqlite://", broker_url="memory://")
TRIAL = DispatchedTrial(
    id=7,
    attempt=1,
    started_attempts=0,
    job_id="job-1",
    search_id=1,
    target_id=1,
    role=WorkerRole.BOTH,
    worker_id=None,
    age_secs=1.0,
    overdue=False,
)
STARTED = replace(TRIAL, started_attempts=1, worker_id="w")
IDLE = FleetWorker(id="w", target_id=1, role=WorkerRole.BOTH, alive=True, accepts=True, holding=frozenset())
HOLDING = replace(IDLE, holding=frozenset({(7, 1)}))
BUSY = replace(IDLE, holding=frozenset({(9, 1)}))
OTHER = replace(IDLE, target_id=2)
BUILDER = replace(IDLE, role=WorkerRole.BUILD)
THIRD = replace(TRIAL, age_secs=39.0, attempt=3)


def dead(worker: FleetWorker) -> FleetWorker:
    return replace(worker, alive=False, accepts=False)


@pytest.mark.parametrize(
    ("case", "trial", "workers", "unheld_secs", "verdict"),
    [
        ("just sent", TRIAL, [IDLE], 0.0, Verdict.KEEP),
        ("held", STARTED, [HOLDING], 0.0, Verdict.KEEP),
        ("held past its deadline", replace(STARTED, overdue=True), [HOLDING], 0.0, Verdict.KEEP),
        ("overdue and held by none", replace(TRIAL, overdue=True), [BUSY], 0.0, Verdict.RING),
        ("held by a dead worker", TRIAL, [dead(HOLDING)], 0.0, Verdict.RING),
        ("held by dead and live", TRIAL, [dead(HOLDING), replace(HOLDING, id="v")], 0.0, Verdict.KEEP),
        ("started on a dead worker", STARTED, [dead(IDLE)], 0.0, Verdict.RING),
        ("started on a worker nobody knows", STARTED, [], 0.0, Verdict.RING),
        ("outcome under way", STARTED, [IDLE], 1.0, Verdict.KEEP),
        ("outcome lost", STARTED, [IDLE], 6.0, Verdict.RING),
        ("waits behind another chunk", replace(TRIAL, age_secs=100.0), [BUSY], 100.0, Verdict.KEEP),
        ("doorbell lost", replace(TRIAL, age_secs=11.0), [IDLE], 11.0, Verdict.RING),
        ("third doorbell, more patience", THIRD, [IDLE], 39.0, Verdict.KEEP),
        ("idle, but of another target", replace(TRIAL, age_secs=11.0), [OTHER], 11.0, Verdict.KEEP),
        ("idle, but of another role", replace(TRIAL, age_secs=11.0), [BUILDER], 11.0, Verdict.KEEP),
        ("an earlier attempt is held", replace(STARTED, attempt=2), [dead(HOLDING)], 0.0, Verdict.RING),
        ("two workers lost", replace(STARTED, started_attempts=2), [], 0.0, Verdict.RING),
        ("three workers lost", replace(STARTED, started_attempts=3), [], 0.0, Verdict.GIVE_UP),
        ("three, the last one holds it", replace(STARTED, started_attempts=3), [HOLDING], 0.0, Verdict.KEEP),
    ],
)  # fmt: skip
def test_a_dispatched_trial_is_judged(
    case: str, trial: DispatchedTrial, workers: list[FleetWorker], unheld_secs: float, verdict: Verdict
) -> None:
    assert judge(trial, workers, SETTINGS, unheld_secs=unheld_secs) is verdict, case
