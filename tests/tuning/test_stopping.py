"""Tasks that stop before their budget is spent: the rule on numbers, and the whole service on rows."""

import dataclasses
from collections.abc import Mapping, Sequence

import pytest
from sqlalchemy import Engine, update

from db.farm_tables import WorkerRow
from db.rounds import RoundResult
from db.session import transaction
from db.states import JobState, Purpose, TaskState
from db.tables import JobRow, SearchRow, TaskRow, TrialRow, WorkloadRow
from services.tuning.stop_rule import StopRule, why_stop
from tests.tuning.farm import WORKER, Farm, ok, program
from tests.tuning.jobs import ended, job_state, search_trials, set_job
from tests.tuning.rows import add_job, add_search, add_target, add_worker, read
from workers.messages import TrialOrder, TrialOutcome

PATIENT = StopRule(patience=10, peak_share=None)
NEAR_PEAK = StopRule(patience=None, peak_share=0.9)


def _rounds(*latencies: float | None, closed: int = 5) -> Mapping[int, RoundResult]:
    return {n: RoundResult(closed=closed, latency_secs=secs) for n, secs in enumerate(latencies)}


@pytest.mark.parametrize(
    ("latencies", "stops"),
    [
        ((), False),
        ((None, None, None, None), False),
        ((1.0, 1.0), False),
        ((1.0, 1.0, 2.0), True),
        ((2.0, 1.5, 1.0, None), False),
        ((1.0, 0.995, 0.994), True),
        ((1.0, 0.98, 0.979), False),
        ((1.0, None, None), True),
    ],
)
def test_patience_ends_where_whole_rounds_bring_no_gain(
    latencies: Sequence[float | None], *, stops: bool
) -> None:
    reason = why_stop(PATIENT, _rounds(*latencies), own_trials=100, least_secs=None)
    assert (reason is not None) is stops


def test_a_task_that_joins_an_old_search_has_its_own_patience() -> None:
    rounds = _rounds(*[1.0] * 40)
    assert why_stop(PATIENT, rounds, own_trials=9, least_secs=None) is None
    assert why_stop(PATIENT, rounds, own_trials=10, least_secs=None) == "no improvement of 1% in 10 trials"


@pytest.mark.parametrize(("least_secs", "stops"), [(None, False), (0.89, False), (0.9, True), (1.2, True)])
def test_near_the_measured_roofline_nothing_is_left(least_secs: float | None, *, stops: bool) -> None:
    reason = why_stop(
        NEAR_PEAK, _rounds(2.0, 1.0), own_trials=1, least_secs=least_secs, least_says="500 GFLOP/s"
    )
    assert (reason is not None) is stops
    assert reason is None or reason.endswith("of what 500 GFLOP/s allow")


@pytest.fixture
def search_id(engine: Engine) -> int:
    target_id = add_target(engine)
    add_worker(engine, target_id, worker_id=WORKER)
    return add_search(engine, target_id)


def test_a_patient_job_ends_early_with_its_record_and_its_budget_unspent(
    engine: Engine, search_id: int
) -> None:
    """The scripted search begins with its best program."""
    add_job(engine, [search_id], max_trials=100)
    set_job(engine, options={"patience": 12})
    with Farm(engine) as farm:
        farm.run_until(lambda: ended(engine))
    assert job_state(engine) == JobState.SUCCEEDED
    (spent,) = read(engine, JobRow.trials_reserved)
    assert 12 <= spent <= 24
    assert spent == len(search_trials(engine, TrialRow.id))
    assert read(engine, TaskRow.stopped) == [f"no improvement of 1% in {spent - 2} trials"]
    assert read(engine, TaskRow.exhausted) == [False]
    assert read(engine, TaskRow.record_id) != [None]


def test_what_one_task_leaves_another_of_its_job_may_have(engine: Engine, search_id: int) -> None:
    """The second search finds better programs all the time."""
    (target_id,) = read(engine, SearchRow.target_id)
    second_id = add_search(engine, target_id, name="w2")

    def answer(order: TrialOrder) -> TrialOutcome:
        (searched,) = read(engine, TrialRow.search_id, TrialRow.id == order.trial_id)
        number = program(order)
        if searched == search_id or number is None or order.purpose is not Purpose.SEARCH:
            return ok(order)
        return dataclasses.replace(ok(order), run_secs=(0.002 / (1 + number),) * 3)

    add_job(engine, [search_id, second_id], max_trials=60, state="running")
    set_job(engine, options={"patience": 8})
    with Farm(engine) as farm:
        farm.run_until(lambda: ended(engine), answer=answer)
    stopped = dict(zip(read(engine, TaskRow.search_id), read(engine, TaskRow.stopped), strict=True))
    spent = dict(zip(read(engine, TaskRow.search_id), read(engine, TaskRow.trials_reserved), strict=True))
    assert stopped[second_id] is None
    assert "no improvement" in stopped[search_id]
    assert spent[search_id] < 30
    assert spent[search_id] + spent[second_id] == 60


def test_jobs_of_one_search_stop_each_by_their_own_rule(engine: Engine, search_id: int) -> None:
    add_job(engine, [search_id], max_trials=40)
    add_job(engine, [search_id], job_id="job-2", max_trials=40)
    set_job(engine, options={"patience": 8})
    with Farm(engine) as farm:
        farm.run_until(lambda: ended(engine, "job-1", "job-2"))
    by_job = dict(zip(read(engine, JobRow.id), read(engine, JobRow.trials_reserved), strict=True))
    assert by_job["job-1"] < 40 == by_job["job-2"]


def test_a_task_at_the_devices_peak_stops(engine: Engine, search_id: int) -> None:
    """2 ms for what the device can do in 1.95."""
    facts = {"selftest": {"fma_gflops_all_cores": 100.0}}
    with transaction(engine) as session:
        session.execute(update(WorkerRow).values(facts=facts, cores=2))
        args = [{"shape": [64, 64], "dtype": "float32"}]
        session.execute(update(WorkloadRow).values(flops=0.00195 * 100e9, args=args))
    add_job(engine, [search_id], max_trials=100)
    set_job(engine, options={"peak_share": 0.95})
    with Farm(engine) as farm:
        farm.run_until(lambda: ended(engine))
    assert read(engine, TaskRow.state) == [TaskState.SUCCEEDED]
    assert read(engine, TaskRow.stopped)[0].endswith("of what 100 GFLOP/s allow")
    assert read(engine, JobRow.trials_reserved)[0] <= 12


def test_a_peak_of_another_dtype_says_nothing(engine: Engine, search_id: int) -> None:
    with transaction(engine) as session:
        session.execute(update(WorkerRow).values(facts={"selftest": {"fma_gflops_all_cores": 1e-3}}, cores=2))
        args = [{"shape": [64, 64], "dtype": "int8"}]
        session.execute(update(WorkloadRow).values(flops=1e9, args=args))
    add_job(engine, [search_id], max_trials=16)
    set_job(engine, options={"peak_share": 0.95})
    with Farm(engine) as farm:
        farm.run_until(lambda: ended(engine))
    assert read(engine, JobRow.trials_reserved) == [16]
    assert read(engine, TaskRow.stopped) == [None]
