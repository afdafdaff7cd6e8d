"""The whole service on rows: jobs run to their end, shared, cancelled, paused and exhausted."""

import pytest
from sqlalchemy import Engine

from db.states import JobState, Purpose, SearchState, TaskState
from db.tables import JobRow, RecordRow, SearchRow, TaskRow, TrialRow
from tests.tuning.farm import WORKER, Farm, ScriptedChild, ok, program
from tests.tuning.jobs import ended, job_state, search_trials, set_job
from tests.tuning.rows import add_job, add_search, add_target, add_worker, read, set_worker, states


@pytest.fixture
def target_id(engine: Engine) -> int:
    target_id = add_target(engine)
    add_worker(engine, target_id, worker_id=WORKER)
    return target_id


@pytest.fixture
def search_id(engine: Engine, target_id: int) -> int:
    return add_search(engine, target_id)


def test_a_job_runs_to_its_end_and_its_best_program_is_published(engine: Engine, search_id: int) -> None:
    add_job(engine, [search_id], max_trials=10)
    with Farm(engine) as farm:
        farm.run_until(lambda: ended(engine))
    assert job_state(engine) == JobState.SUCCEEDED
    assert len(search_trials(engine, TrialRow.id)) == 10
    assert read(engine, JobRow.trials_reserved) == read(engine, TaskRow.trials_reserved) == [10]
    assert set(states(engine)) == {"done"}
    assert read(engine, RecordRow.latency_secs)[-1] == pytest.approx(0.002)
    assert read(engine, TaskRow.record_id) == [read(engine, RecordRow.id)[-1]]
    assert read(engine, SearchRow.untuned_latency_secs) == [pytest.approx(0.01)]
    assert read(engine, SearchRow.best_latency_secs) == [pytest.approx(0.002)]
    [started, finished] = [read(engine, JobRow.started_at)[0], read(engine, JobRow.finished_at)[0]]
    assert started <= finished
    assert read(engine, SearchRow.lease_owner) == [None]
    assert set(farm.spent) == {"follow", "plan", "search", "look", "settle", "dispatch", "reconcile"}
    assert farm.spent["search"] > 0


def test_each_round_sees_exactly_the_results_up_to_the_one_before_last(
    engine: Engine, search_id: int
) -> None:
    add_job(engine, [search_id], max_trials=20)
    with Farm(engine) as farm:
        farm.run_until(lambda: ended(engine))
    told = 0
    seen = {}
    [child] = farm.children
    for request in child.requests:
        told += len(request.get("known", ())) + len(request.get("results", ()))
        if request["op"] == "suggest":
            seen[request["round"]] = told
    assert seen == {0: 0, 1: 0, 2: 2, 3: 4, 4: 8, 5: 12}


def test_the_untuned_program_is_measured_before_any_candidate(engine: Engine, search_id: int) -> None:
    add_job(engine, [search_id])
    with Farm(engine) as farm:
        farm.run_until(lambda: ended(engine))
    [first, second] = farm.all_sent[:2]
    assert [order.purpose for order in first.trials] == [Purpose.BASELINE]
    assert program(first.trials[0]) is None
    assert second.best_latency_secs == pytest.approx(0.01)


def test_the_queue_of_a_target_stays_short(engine: Engine, search_id: int) -> None:
    add_job(engine, [search_id], max_trials=64)
    with Farm(engine, batch_size=32, first_batch_size=32) as farm:
        farm.run_until(lambda: len(search_trials(engine, TrialRow.id)) == 32)
        farm.run_until(lambda: states(engine).get("dispatched", 0) > 4, answer=ok)
        farm.tick(3)
        assert states(engine)["dispatched"] == 8


def test_without_a_worker_nothing_is_dispatched(engine: Engine) -> None:
    add_job(engine, [add_search(engine, add_target(engine))])
    with Farm(engine) as farm:
        farm.run_until(lambda: len(search_trials(engine, TrialRow.id)) == 4)
        farm.tick(3)
        assert len(search_trials(engine, TrialRow.id)) == 4
    assert farm.all_sent == []
    assert job_state(engine) == JobState.RUNNING


def test_two_jobs_on_one_workload_share_a_search_and_measure_nothing_twice(
    engine: Engine, search_id: int
) -> None:
    for job_id in ("job-1", "job-2"):
        add_job(engine, [search_id], job_id=job_id, max_trials=8)
    with Farm(engine) as farm:
        farm.run_until(lambda: ended(engine, "job-1", "job-2"))
    programs = [
        program(order) for chunk in farm.all_sent for order in chunk.trials if order.purpose is Purpose.SEARCH
    ]
    assert sorted(programs) == list(range(16))
    assert read(engine, JobRow.trials_reserved) == [8, 8]
    assert len(farm.children) == 1


def test_a_job_of_more_tasks_than_a_replica_leases_ends_all_the_same(engine: Engine, target_id: int) -> None:
    """The rule may choose a task whose search nobody leases: the others would wait for it for ever."""
    searches = [add_search(engine, target_id, name=str(number)) for number in range(3)]
    add_job(engine, searches, max_trials=12)
    with Farm(engine, max_leases=2, lease_secs=1.0) as farm:
        farm.run_until(lambda: ended(engine))
    assert job_state(engine) == JobState.SUCCEEDED
    assert read(engine, TaskRow.state) == [TaskState.SUCCEEDED] * 3


def test_an_urgent_job_is_measured_first(engine: Engine, target_id: int) -> None:
    calm, urgent = (add_search(engine, target_id, name=name) for name in ("calm", "urgent"))
    add_job(engine, [calm], job_id="job-1", max_trials=4)
    add_job(engine, [urgent], job_id="job-2", max_trials=4, priority=5)
    set_worker(engine, WORKER, desired_state="paused")
    with Farm(engine) as farm:
        farm.run_until(lambda: len(read(engine, TrialRow.id)) == 10)
        set_worker(engine, WORKER, desired_state="running")
        farm.tick()
        assert {chunk.search_id for chunk in farm.sent[:1]} == {urgent}


def test_an_exhausted_space_is_a_success_and_says_so(engine: Engine, search_id: int) -> None:
    add_job(engine, [search_id], max_trials=100)
    with Farm(engine, child=lambda: ScriptedChild(space=5)) as farm:
        farm.run_until(lambda: ended(engine))
    assert (job_state(engine), read(engine, TaskRow.exhausted)) == (JobState.SUCCEEDED, [True])
    assert len(search_trials(engine, TrialRow.id)) == 5
    assert read(engine, SearchRow.state) == [SearchState.EXHAUSTED]


def test_a_resubmission_on_an_exhausted_search_ends_at_once_with_its_record(
    engine: Engine, search_id: int
) -> None:
    add_job(engine, [search_id], max_trials=100)
    with Farm(engine, child=lambda: ScriptedChild(space=5)) as farm:
        farm.run_until(lambda: ended(engine))
        sent = len(farm.all_sent)
        add_job(engine, [search_id], job_id="job-2", max_trials=100)
        farm.tick(4)
        assert job_state(engine, "job-2") == JobState.SUCCEEDED
        assert len(farm.all_sent) == sent
    assert read(engine, TaskRow.record_id) == [read(engine, RecordRow.id)[-1]] * 2


def test_a_cancel_ends_the_job_within_a_tick_and_late_outcomes_change_nothing(
    engine: Engine, search_id: int
) -> None:
    add_job(engine, [search_id], max_trials=64)
    with Farm(engine) as farm:
        farm.run_until(lambda: states(engine).get("done", 0) >= 5)
        farm.tick(2)
        late = list(farm.sent)
        assert late
        set_job(engine, desired_state="cancelled")
        farm.tick()
        after = states(engine)
        assert (job_state(engine), set(after)) == (JobState.CANCELLED, {"done", "cancelled"})
        farm.measure()
        farm.tick(2)
        assert states(engine) == after
        assert farm.sent == []
    assert read(engine, TaskRow.state) == [TaskState.CANCELLED]


def test_what_a_cancelled_job_left_is_taken_over_by_the_next_one(engine: Engine, search_id: int) -> None:
    add_job(engine, [search_id], max_trials=64)
    with Farm(engine, child=lambda: ScriptedChild(space=8)) as farm:
        farm.run_until(
            lambda: len(farm.sent) > 0 and farm.sent[0].trials[0].purpose is Purpose.SEARCH, answer=ok
        )
        set_job(engine, desired_state="cancelled")
        farm.tick()
        add_job(engine, [search_id], job_id="job-2", max_trials=64)
        farm.sent.clear()
        farm.run_until(lambda: ended(engine, "job-2"))
    assert job_state(engine, "job-2") == JobState.SUCCEEDED
    done = read(engine, TrialRow.program_hash, TrialRow.purpose == Purpose.SEARCH)
    assert len(done) == len(set(done)) == 8
    reserved = dict(zip(read(engine, JobRow.id), read(engine, JobRow.trials_reserved), strict=True))
    charged = {job_id: len(search_trials(engine, TrialRow.id, job_id)) for job_id in reserved}
    assert reserved == charged


def test_a_paused_job_measures_nothing_and_goes_on_where_it_was(engine: Engine, search_id: int) -> None:
    add_job(engine, [search_id], max_trials=12)
    with Farm(engine) as farm:
        farm.run_until(lambda: states(engine).get("done", 0) >= 5)
        set_job(engine, desired_state="paused")
        farm.tick()
        assert job_state(engine) == JobState.PAUSED
        assert "dispatched" not in states(engine)
        sent = len(farm.all_sent)
        farm.tick(3)
        assert len(farm.all_sent) == sent
        farm.sent.clear()
        set_job(engine, desired_state="running")
        farm.run_until(lambda: ended(engine))
    assert job_state(engine) == JobState.SUCCEEDED
    assert len(search_trials(engine, TrialRow.id)) == 12


def test_a_paused_job_does_not_hold_up_another_on_its_search(engine: Engine, search_id: int) -> None:
    for job_id in ("job-1", "job-2"):
        add_job(engine, [search_id], job_id=job_id, max_trials=8)
    with Farm(engine) as farm:
        farm.run_until(lambda: states(engine).get("queued", 0) + states(engine).get("dispatched", 0) >= 2)
        set_job(engine, desired_state="paused")
        farm.run_until(lambda: ended(engine, "job-2"))
        assert job_state(engine) == JobState.PAUSED
        set_job(engine, desired_state="running")
        farm.run_until(lambda: ended(engine))
    assert read(engine, JobRow.trials_reserved) == [8, 8]


def test_a_raised_budget_lets_the_job_go_on(engine: Engine, search_id: int) -> None:
    add_job(engine, [search_id], max_trials=4)
    with Farm(engine) as farm:
        farm.run_until(lambda: states(engine).get("done", 0) >= 4)
        set_job(engine, max_trials=9)
        farm.run_until(lambda: ended(engine))
    assert len(search_trials(engine, TrialRow.id)) == 9
