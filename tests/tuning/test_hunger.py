"""A round is asked for before its time only while several devices are about to run dry."""

from dataclasses import replace

import pytest
from sqlalchemy import Engine

from db.fleet import FleetWorker
from db.rounds import OpenTrials
from db.states import TrialState, WorkerRole
from db.tables import TrialRow
from services.tuning.dispatch import Pace, chunk_limit
from services.tuning.hunger import Hunger
from services.tuning.rounds import learnt_round
from services.tuning.snapshot import Snapshot
from tests.tuning.farm import Farm
from tests.tuning.rows import add_job, add_search, add_target, add_worker, read
from tests.tuning.test_rounds import SEARCH, SETTINGS, open_in


def farm_of(devices: int, *, open_trials: list[OpenTrials], under_way: int = 0) -> Snapshot:
    worker = FleetWorker(
        id="0", target_id=1, role=WorkerRole.BOTH, alive=True, accepts=True, holding=frozenset()
    )
    return Snapshot(
        searches={1: SEARCH},
        tasks=[],
        open_trials=open_trials,
        cancelled={},
        baselines={},
        outstanding={1: {WorkerRole.BOTH: under_way}},
        owners_out={},
        workers=[replace(worker, id=str(number)) for number in range(devices)],
    )


def lag_of(snapshot: Snapshot, *, asked: tuple[int, ...] = (), round_secs: float = 0.5) -> int:
    hunger = Hunger(
        snapshot=snapshot,
        asked=asked,
        pace=lambda _target: Pace(size=16, trial_secs=0.5),
        round_secs=lambda _search: round_secs,
        settings=SETTINGS,
    )
    return hunger.max_lag(SEARCH)


@pytest.mark.parametrize(
    ("devices", "waiting", "under_way", "asked", "early"),
    [
        (1, 0, 0, (), False),
        (0, 0, 0, (), False),
        (8, 0, 8, (), True),
        # 8 devices hold half a chunk of four and eat two trials each while a round is searched: 32.
        (8, 0, 31, (), True),
        (8, 0, 32, (), False),
        (8, 24, 8, (), False),
        (8, 0, 20, (1,), False),
    ],
)
def test_a_round_may_be_early_while_there_is_less_than_devices_eat_until_it_comes(
    devices: int,
    waiting: int,
    under_way: int,
    asked: tuple[int, ...],
    early: bool,  # noqa: FBT001 - a column of the table above
) -> None:
    out = [open_in(2, count=under_way, state=TrialState.DISPATCHED), open_in(2, count=waiting)]
    lag = lag_of(farm_of(devices, open_trials=out, under_way=under_way), asked=asked)
    assert lag == (SETTINGS.max_round_lag if early else 2)


def test_what_takes_long_to_search_is_asked_for_sooner() -> None:
    out = farm_of(8, open_trials=[], under_way=60)
    assert (lag_of(out), lag_of(out, round_secs=5.0)) == (2, SETTINGS.max_round_lag)


def test_a_round_learns_from_whole_rounds_only() -> None:
    assert learnt_round(SEARCH, []) == 1
    assert learnt_round(SEARCH, [open_in(2)]) == 1
    assert learnt_round(SEARCH, [open_in(1), open_in(2)]) == 0
    assert learnt_round(SEARCH, [open_in(0, state=TrialState.DISPATCHED)]) == -1


def test_little_work_is_shared_by_all_devices() -> None:
    assert chunk_limit(16, work=64, devices=1, settings=SETTINGS) == 16
    assert chunk_limit(16, work=64, devices=4, settings=SETTINGS) == 8
    assert chunk_limit(16, work=64, devices=64, settings=SETTINGS) == SETTINGS.chunk_size_min
    assert chunk_limit(16, work=6400, devices=64, settings=SETTINGS) == 16


@pytest.mark.parametrize(("devices", "rounds"), [(1, 2), (8, 8)])
def test_one_slow_trial_holds_up_one_device_and_not_eight(engine: Engine, devices: int, rounds: int) -> None:
    target_id = add_target(engine)
    for number in range(devices):
        add_worker(engine, target_id, worker_id=f"worker-{number}", name=f"w{number}")
    add_job(engine, [add_search(engine, target_id)], max_trials=200)
    with Farm(engine) as farm:
        farm.run_until(lambda: bool(read(engine, TrialRow.id, TrialRow.round == 1)))
        # The first round's last trial never ends; all others do.
        slow = max(read(engine, TrialRow.id, TrialRow.round == 0, TrialRow.purpose == "search"))
        for _ in range(16):
            farm.tick()
            farm.sent = [
                replace(chunk, trials=tuple(order for order in chunk.trials if order.trial_id != slow))
                for chunk in farm.sent
            ]
            farm.measure()
    assert max(read(engine, TrialRow.round)) == rounds - 1
    # The newest whole round: none, while the first one is open.
    assert set(read(engine, TrialRow.learnt_round, TrialRow.round > 1)) <= {-1}
