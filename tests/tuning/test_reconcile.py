"""A trial is rung again only when nobody can be working on it; it is given up after three dead workers."""

from dataclasses import replace

import pytest

from db.dispatched import DispatchedTrial
from db.fleet import FleetWorker
from db.states import WorkerRole
from services.tuning.reconcile import MAX_LET_GO, Holders, Verdict, judge
from services.tuning.settings import TunerSettings
from services.tuning.sightings import Seen, Sightings

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
        ("outcome lost", STARTED, [IDLE], 6.0, Verdict.RING_UNCOUNTED),
        ("its heartbeat is late", STARTED, [replace(IDLE, silent_secs=4.0)], 6.0, Verdict.KEEP),
        ("past its deadline, but just started", replace(STARTED, overdue=True), [BUSY], 0.0, Verdict.KEEP),
        ("two died, one let go", replace(STARTED, started_attempts=3), [BUSY], 6.0, Verdict.RING_UNCOUNTED),
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
    idle = frozenset((w.target_id, w.role) for w in workers if w.accepts and not w.holding)
    seen = Seen(unheld_secs=unheld_secs, idle=idle)
    assert judge(trial, Holders(workers), SETTINGS, seen) is verdict, case


def test_one_heartbeat_without_trials_is_no_idle_worker() -> None:
    """A busy worker holds nothing for a moment between two chunks; what waits behind is not lost then."""
    waits = replace(TRIAL, age_secs=100.0)
    sightings = Sightings()
    sightings.look([waits], [replace(IDLE, silent_secs=0.5)], now=100.0)
    sightings.look([waits], [replace(IDLE, silent_secs=1.5)], now=101.0)
    assert judge(waits, Holders([IDLE]), SETTINGS, sightings.of(waits)) is Verdict.KEEP
    sightings.look([waits], [replace(IDLE, silent_secs=0.4)], now=102.0)
    assert judge(waits, Holders([IDLE]), SETTINGS, sightings.of(waits)) is Verdict.RING


def test_the_wait_for_a_device_does_not_count_against_the_worker_that_starts_the_trial() -> None:
    """It waited for a minute; between its start and the next heartbeat nobody is seen to hold it."""
    sightings = Sightings()
    for second in range(60):
        sightings.look([TRIAL], [BUSY], now=100.0 + second)
    sightings.look([STARTED], [replace(IDLE, silent_secs=1.9)], now=160.0)
    assert judge(STARTED, Holders([IDLE]), SETTINGS, sightings.of(STARTED)) is Verdict.KEEP


def test_a_worker_that_was_only_silent_does_not_count_as_dead() -> None:
    """Three silences of one worker, each over the same trial; the row counts three started attempts."""
    sightings = Sightings()
    silent = dead(replace(IDLE, silent_secs=12.0))
    for attempt in (1, 2, 3):
        trial = replace(STARTED, attempt=attempt, started_attempts=attempt)
        sightings.look([trial], [silent], now=20.0 * attempt)
        assert judge(trial, Holders([silent]), SETTINGS, sightings.of(trial)) is Verdict.RING
        sightings.note_lost(trial)
        sightings.look([], [IDLE], now=20.0 * attempt + 5)
    died = [replace(STARTED, attempt=4 + n, started_attempts=4 + n, worker_id=f"w{n}") for n in range(3)]
    verdicts = []
    for trial in died:
        sightings.look([trial], [IDLE], now=100.0)
        verdicts.append(judge(trial, Holders([IDLE]), SETTINGS, sightings.of(trial)))
        sightings.note_lost(trial)
    assert verdicts == [Verdict.RING, Verdict.RING, Verdict.GIVE_UP]


def test_a_trial_that_live_workers_let_go_of_is_given_up_at_last_and_ever_more_slowly() -> None:
    seen = Seen(unheld_secs=79.0, let_go=4)
    assert judge(STARTED, Holders([IDLE]), SETTINGS, seen) is Verdict.KEEP
    assert (
        judge(STARTED, Holders([IDLE]), SETTINGS, replace(seen, unheld_secs=81.0)) is Verdict.RING_UNCOUNTED
    )
    last = replace(seen, unheld_secs=1e6, let_go=MAX_LET_GO)
    assert judge(STARTED, Holders([IDLE]), SETTINGS, last) is Verdict.GIVE_UP
