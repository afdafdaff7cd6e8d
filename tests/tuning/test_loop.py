"""The whole service on rows: jobs run to their end, whatever is cancelled, lost, doubled or killed."""

from typing import Any

import pytest
from sqlalchemy import Engine, update

from db.clock import utc_now
from db.session import transaction
from db.states import JobState, Outcome, Purpose, RecordState, SearchState, TaskState, TrialState
from db.tables import JobRow, RecordRow, SearchRow, TaskRow, TrialRow
from tests.tuning.farm import WORKER, Farm, ScriptedChild, ok, outcome, program, wrong_at_confirm
from tests.tuning.rows import add_job, add_search, add_target, add_worker, heard, read, set_worker, states
from workers.messages import TrialOrder, TrialOutcome, TrialStarted


@pytest.fixture
def target_id(engine: Engine) -> int:
    target_id = add_target(engine)
    add_worker(engine, target_id, worker_id=WORKER)
    return target_id


@pytest.fixture
def search_id(engine: Engine, target_id: int) -> int:
    return add_search(engine, target_id)


def _set_job(engine: Engine, job_id: str = "job-1", **values: Any) -> None:
    with transaction(engine) as session:
        session.execute(update(JobRow).where(JobRow.id == job_id).values(**values))


def _job(engine: Engine, job_id: str = "job-1") -> str:
    return str(read(engine, JobRow.state, JobRow.id == job_id)[0])


def _ended(engine: Engine, *job_ids: str) -> bool:
    return all(JobState(_job(engine, job_id)).ended for job_id in job_ids or ("job-1",))


def _search_trials(engine: Engine, column: Any, job_id: str = "job-1") -> list[Any]:
    return read(engine, column, TrialRow.job_id == job_id, TrialRow.purpose == Purpose.SEARCH)


def test_a_job_runs_to_its_end_and_its_best_program_is_published(engine: Engine, search_id: int) -> None:
    add_job(engine, [search_id], max_trials=10)
    with Farm(engine) as farm:
        farm.run_until(lambda: _ended(engine))
    assert _job(engine) == JobState.SUCCEEDED
    assert len(_search_trials(engine, TrialRow.id)) == 10
    assert read(engine, JobRow.trials_reserved) == read(engine, TaskRow.trials_reserved) == [10]
    assert set(states(engine)) == {"done"}
    assert read(engine, RecordRow.latency_secs)[-1] == pytest.approx(0.002)
    assert read(engine, TaskRow.record_id) == [read(engine, RecordRow.id)[-1]]
    assert read(engine, SearchRow.untuned_latency_secs) == [pytest.approx(0.01)]
    assert read(engine, SearchRow.best_latency_secs) == [pytest.approx(0.002)]
    [started, finished] = [read(engine, JobRow.started_at)[0], read(engine, JobRow.finished_at)[0]]
    assert started <= finished
    assert read(engine, SearchRow.lease_owner) == [None]


def test_each_round_sees_exactly_the_results_up_to_the_one_before_last(
    engine: Engine, search_id: int
) -> None:
    add_job(engine, [search_id], max_trials=20)
    with Farm(engine) as farm:
        farm.run_until(lambda: _ended(engine))
    told = 0
    seen = {}
    [child] = farm.children
    for request in child.requests:
        told += len(request.get("known", ())) + len(request.get("results", ()))
        if request["op"] == "suggest":
            seen[request["round"]] = told
    assert seen == {0: 0, 1: 0, 2: 4, 3: 8, 4: 12}


def test_the_untuned_program_is_measured_before_any_candidate(engine: Engine, search_id: int) -> None:
    add_job(engine, [search_id])
    with Farm(engine) as farm:
        farm.run_until(lambda: _ended(engine))
    [first, second] = farm.all_sent[:2]
    assert [order.purpose for order in first.trials] == [Purpose.BASELINE]
    assert program(first.trials[0]) is None
    assert second.best_latency_secs == pytest.approx(0.01)


def test_the_queue_of_a_target_stays_short(engine: Engine, search_id: int) -> None:
    add_job(engine, [search_id], max_trials=64)
    with Farm(engine, batch_size=32, first_batch_size=32) as farm:
        farm.run_until(lambda: len(_search_trials(engine, TrialRow.id)) == 32)
        farm.run_until(lambda: states(engine).get("dispatched", 0) > 4, answer=ok)
        farm.tick(3)
        assert states(engine)["dispatched"] == 8


def test_without_a_worker_nothing_is_dispatched(engine: Engine) -> None:
    add_job(engine, [add_search(engine, add_target(engine))])
    with Farm(engine) as farm:
        farm.run_until(lambda: len(_search_trials(engine, TrialRow.id)) == 8)
    assert farm.all_sent == []
    assert _job(engine) == JobState.RUNNING


def test_two_jobs_on_one_workload_share_a_search_and_measure_nothing_twice(
    engine: Engine, search_id: int
) -> None:
    for job_id in ("job-1", "job-2"):
        add_job(engine, [search_id], job_id=job_id, max_trials=8)
    with Farm(engine) as farm:
        farm.run_until(lambda: _ended(engine, "job-1", "job-2"))
    programs = [
        program(order) for chunk in farm.all_sent for order in chunk.trials if order.purpose is Purpose.SEARCH
    ]
    assert sorted(programs) == list(range(16))
    assert read(engine, JobRow.trials_reserved) == [8, 8]
    assert len(farm.children) == 1


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
        farm.run_until(lambda: _ended(engine))
    assert (_job(engine), read(engine, TaskRow.exhausted)) == (JobState.SUCCEEDED, [True])
    assert len(_search_trials(engine, TrialRow.id)) == 5
    assert read(engine, SearchRow.state) == [SearchState.EXHAUSTED]


def test_a_resubmission_on_an_exhausted_search_ends_at_once_with_its_record(
    engine: Engine, search_id: int
) -> None:
    add_job(engine, [search_id], max_trials=100)
    with Farm(engine, child=lambda: ScriptedChild(space=5)) as farm:
        farm.run_until(lambda: _ended(engine))
        sent = len(farm.all_sent)
        add_job(engine, [search_id], job_id="job-2", max_trials=100)
        farm.tick(4)
        assert _job(engine, "job-2") == JobState.SUCCEEDED
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
        _set_job(engine, desired_state="cancelled")
        farm.tick()
        after = states(engine)
        assert (_job(engine), set(after)) == (JobState.CANCELLED, {"done", "cancelled"})
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
        _set_job(engine, desired_state="cancelled")
        farm.tick()
        add_job(engine, [search_id], job_id="job-2", max_trials=64)
        farm.sent.clear()
        farm.run_until(lambda: _ended(engine, "job-2"))
    assert _job(engine, "job-2") == JobState.SUCCEEDED
    done = read(engine, TrialRow.program_hash, TrialRow.purpose == Purpose.SEARCH)
    assert len(done) == len(set(done)) == 8
    reserved = dict(zip(read(engine, JobRow.id), read(engine, JobRow.trials_reserved), strict=True))
    charged = {job_id: len(_search_trials(engine, TrialRow.id, job_id)) for job_id in reserved}
    assert reserved == charged


def test_a_paused_job_measures_nothing_and_goes_on_where_it_was(engine: Engine, search_id: int) -> None:
    add_job(engine, [search_id], max_trials=12)
    with Farm(engine) as farm:
        farm.run_until(lambda: states(engine).get("done", 0) >= 5)
        _set_job(engine, desired_state="paused")
        farm.tick()
        assert _job(engine) == JobState.PAUSED
        assert "dispatched" not in states(engine)
        sent = len(farm.all_sent)
        farm.tick(3)
        assert len(farm.all_sent) == sent
        farm.sent.clear()
        _set_job(engine, desired_state="running")
        farm.run_until(lambda: _ended(engine))
    assert _job(engine) == JobState.SUCCEEDED
    assert len(_search_trials(engine, TrialRow.id)) == 12


def test_a_paused_job_does_not_hold_up_another_on_its_search(engine: Engine, search_id: int) -> None:
    for job_id in ("job-1", "job-2"):
        add_job(engine, [search_id], job_id=job_id, max_trials=8)
    with Farm(engine) as farm:
        farm.run_until(lambda: states(engine).get("queued", 0) + states(engine).get("dispatched", 0) >= 2)
        _set_job(engine, desired_state="paused")
        farm.run_until(lambda: _ended(engine, "job-2"))
        assert _job(engine) == JobState.PAUSED
        _set_job(engine, desired_state="running")
        farm.run_until(lambda: _ended(engine))
    assert read(engine, JobRow.trials_reserved) == [8, 8]


def test_a_raised_budget_lets_the_job_go_on(engine: Engine, search_id: int) -> None:
    add_job(engine, [search_id], max_trials=4)
    with Farm(engine) as farm:
        farm.run_until(lambda: states(engine).get("done", 0) >= 4)
        _set_job(engine, max_trials=9)
        farm.run_until(lambda: _ended(engine))
    assert len(_search_trials(engine, TrialRow.id)) == 9


def test_a_killed_service_loses_nothing_and_doubles_nothing(engine: Engine, search_id: int) -> None:
    """The first farm is dropped without a close, at several points; the next ones go on from rows."""
    add_job(engine, [search_id], max_trials=16)
    sent = []
    for owner, stop_at in (("a", 1), ("b", 6), ("c", 11)):
        farm = Farm(engine, owner=owner, lease_secs=0.3)
        farm.run_until(lambda stop_at=stop_at: states(engine).get("done", 0) >= stop_at)
        sent += farm.all_sent
        unanswered = farm.sent
        with Farm(engine, owner=f"{owner}2", lease_secs=0.3) as other:
            other.sent.extend(unanswered)
            other.measure()
    with Farm(engine, owner="last") as farm:
        farm.run_until(lambda: _ended(engine))
    assert _job(engine) == JobState.SUCCEEDED
    programs = read(engine, TrialRow.program_hash, TrialRow.purpose == Purpose.SEARCH)
    assert len(programs) == len(set(programs)) == 16
    assert set(read(engine, TrialRow.attempt, TrialRow.purpose == Purpose.SEARCH)) == {1}
    assert read(engine, JobRow.trials_reserved) == [16]


def test_two_replicas_share_the_searches_and_none_is_tuned_twice(engine: Engine, target_id: int) -> None:
    searches = [add_search(engine, target_id, name=str(number)) for number in range(4)]
    for number, search in enumerate(searches):
        add_job(engine, [search], job_id=f"job-{number}", max_trials=8)
    jobs = [f"job-{number}" for number in range(4)]
    with Farm(engine, max_leases=2) as first, Farm(engine, owner="b", max_leases=2) as second:
        while not _ended(engine, *jobs):
            for farm in (first, second):
                farm.tick()
                farm.measure()
        tuned = [{chunk.search_id for chunk in farm.all_sent} for farm in (first, second)]
    assert [len(ids) for ids in tuned] == [2, 2]
    assert tuned[0] | tuned[1] == set(searches)
    assert read(engine, JobRow.trials_reserved) == [8] * 4


def test_a_search_whose_child_dies_again_and_again_fails_alone(engine: Engine, target_id: int) -> None:
    bad = add_search(engine, target_id, name="bad")
    good = add_search(engine, target_id, name="good")
    add_job(engine, [bad, good], max_trials=16, max_trials_per_task=8)
    lives: list[ScriptedChild] = []

    def child() -> ScriptedChild:
        lives.append(ScriptedChild())
        return lives[-1]

    with Farm(engine, child=child, max_crashes=3) as farm:
        spoil = farm.tuner._host._opening

        def opening(search: Any, *arguments: Any) -> dict[str, Any]:
            if search.id == bad:
                raise ValueError("TVM does not survive this module")
            return spoil(search, *arguments)

        farm.tuner._host._opening = opening
        farm.run_until(lambda: _ended(engine))
    assert _job(engine) == JobState.SUCCEEDED
    assert read(engine, TaskRow.state) == [TaskState.FAILED, TaskState.SUCCEEDED]
    error = read(engine, TaskRow.error)[0]
    assert f"search {bad}" in error
    assert "TVM does not survive this module" in error
    assert read(engine, SearchRow.crashes, SearchRow.id == bad) == [3]


def test_a_new_job_gives_a_failed_search_another_chance(engine: Engine, search_id: int) -> None:
    add_job(engine, [search_id])
    with Farm(engine, child=lambda: ScriptedChild(dies=True), max_crashes=1) as farm:
        farm.run_until(lambda: _ended(engine))
    assert _job(engine) == JobState.FAILED
    assert "SIGSEGV" in read(engine, JobRow.error)[0]
    add_job(engine, [search_id], job_id="job-2")
    with Farm(engine) as farm:
        farm.run_until(lambda: _ended(engine, "job-2"))
    assert _job(engine, "job-2") == JobState.SUCCEEDED


def test_a_reference_that_cannot_be_computed_fails_the_task_and_measures_no_candidate(
    engine: Engine, search_id: int
) -> None:
    def answer(order: TrialOrder) -> TrialOutcome:
        return outcome(order, Outcome.REJECTED, error="reference: ran out of memory")

    add_job(engine, [search_id])
    with Farm(engine) as farm:
        farm.run_until(lambda: _ended(engine), answer=answer)
        assert len(farm.all_sent) == 1
    assert _job(engine) == JobState.FAILED
    assert "reference: ran out of memory" in read(engine, TaskRow.error)[0]
    assert set(states(engine)) <= {"done", "cancelled"}
    add_job(engine, [search_id], job_id="job-2")
    with Farm(engine) as farm:
        farm.run_until(lambda: _ended(engine, "job-2"))
    assert _job(engine, "job-2") == JobState.SUCCEEDED


def test_a_job_without_any_ok_outcome_fails_with_the_first_reason(engine: Engine, search_id: int) -> None:
    def answer(order: TrialOrder) -> TrialOutcome:
        return outcome(order, Outcome.BUILD_ERROR, error="LLVM said no")

    add_job(engine, [search_id])
    with Farm(engine) as farm:
        farm.run_until(lambda: _ended(engine), answer=answer)
    assert _job(engine) == JobState.FAILED
    assert "build_error: LLVM said no" in read(engine, JobRow.error)[0]
    assert read(engine, RecordRow.id) == []


def test_a_program_whose_output_is_wrong_at_confirmation_is_never_published(
    engine: Engine, search_id: int
) -> None:
    add_job(engine, [search_id], max_trials=4)
    with Farm(engine) as farm:
        farm.run_until(lambda: _ended(engine), answer=wrong_at_confirm)
    assert read(engine, RecordRow.id) == []
    confirmed = read(engine, TrialRow.outcome, TrialRow.purpose == Purpose.CONFIRM)
    # Four candidates, and the untuned module as the last resort.
    assert confirmed == [Outcome.WRONG_OUTPUT] * 5
    assert "confirmed" in read(engine, TaskRow.error)[0]


def test_the_published_best_never_regresses(engine: Engine, search_id: int) -> None:
    """A second job finds programs that look faster, but lose against the incumbent, interleaved."""

    def optimistic(order: TrialOrder) -> TrialOutcome:
        if order.purpose is Purpose.CONFIRM:
            return outcome(order, Outcome.OK, run_secs=(0.003,), incumbent_run_secs=(0.0025,))
        return outcome(order, Outcome.OK, run_secs=(0.001,))

    add_job(engine, [search_id], max_trials=4)
    with Farm(engine) as farm:
        farm.run_until(lambda: _ended(engine))
        published = read(engine, RecordRow.id)
        add_job(engine, [search_id], job_id="job-2", max_trials=4)
        farm.run_until(lambda: _ended(engine, "job-2"), answer=optimistic)
    assert read(engine, RecordRow.id) == published
    assert _job(engine, "job-2") == JobState.SUCCEEDED
    assert set(read(engine, RecordRow.state)) == {RecordState.PUBLISHED}


def test_partial_results_are_published_while_a_long_job_runs(engine: Engine, search_id: int) -> None:
    add_job(engine, [search_id], max_trials=64)
    with Farm(engine) as farm:
        farm.run_until(lambda: len(read(engine, RecordRow.id)) == 1)
        assert _job(engine) == JobState.RUNNING


def test_a_dead_workers_trials_are_measured_again_each_alone(engine: Engine, search_id: int) -> None:
    add_job(engine, [search_id], max_trials=4)
    with Farm(engine, reconcile_secs=0.001) as farm:
        farm.run_until(lambda: bool(farm.sent) and len(farm.sent[0].trials) == 4, answer=ok)
        [chunk] = farm.sent
        first = chunk.trials[0]
        farm.report(TrialStarted(trial_id=first.trial_id, attempt=1, worker_id=WORKER))
        heard(engine, WORKER, [(order.trial_id, order.attempt) for order in chunk.trials], ago_secs=60)
        add_worker(engine, chunk_target(engine), worker_id="worker-2")
        farm.sent.clear()
        farm.tick(3)
        again = [[order.trial_id for order in sent.trials] for sent in farm.sent]
        assert again == [[order.trial_id for order in chunk.trials[1:]], [first.trial_id]]
        farm.report(ok(first))
        assert read(engine, TrialRow.state, TrialRow.id == first.trial_id) == [TrialState.DISPATCHED]
        farm.run_until(lambda: _ended(engine))
    assert _job(engine) == JobState.SUCCEEDED
    assert read(engine, TrialRow.attempt, TrialRow.id == first.trial_id) == [2]


def chunk_target(engine: Engine) -> int:
    return int(read(engine, SearchRow.target_id)[0])


def test_a_trial_that_kills_its_workers_is_given_up(engine: Engine, search_id: int) -> None:
    add_job(engine, [search_id], max_trials=2)

    def deadly(order: TrialOrder) -> bool:
        return order.purpose is Purpose.SEARCH and program(order) == 0

    with Farm(engine, reconcile_secs=0.001, first_batch_size=2) as farm:
        for _ in range(200):
            farm.tick()
            for chunk in farm.sent:
                for order in chunk.trials:
                    farm.report(
                        TrialStarted(
                            trial_id=order.trial_id,
                            attempt=order.attempt,
                            worker_id="gone" if deadly(order) else WORKER,
                        )
                    )
                    if not deadly(order):
                        farm.report(ok(order))
            farm.sent.clear()
            if _ended(engine):
                break
    [lost] = read(engine, TrialRow.id, TrialRow.state == TrialState.FAILED)
    assert read(engine, TrialRow.outcome, TrialRow.id == lost) == [Outcome.WORKER_LOST]
    assert read(engine, TrialRow.started_attempts, TrialRow.id == lost) == [3]
    assert _job(engine) == JobState.SUCCEEDED


def test_a_lost_doorbell_is_rung_again_when_the_worker_idles(engine: Engine, search_id: int) -> None:
    add_job(engine, [search_id], max_trials=2)
    with Farm(engine, reconcile_secs=0.001, unheard_secs=0.1) as farm:
        farm.run_until(lambda: len(farm.sent) == 1, answer=ok)
        farm.sent.clear()
        farm.run_until(lambda: _ended(engine))
    assert _job(engine) == JobState.SUCCEEDED


def test_a_broker_that_is_down_loses_and_doubles_nothing(engine: Engine, search_id: int) -> None:
    add_job(engine, [search_id], max_trials=8)
    with Farm(engine, broker_retry_secs=0.05) as farm:
        farm.broker_is_down = True
        farm.run_until(lambda: len(_search_trials(engine, TrialRow.id)) == 8)
        farm.tick(10)
        assert set(states(engine)) == {"queued"}
        farm.broker_is_down = False
        farm.run_until(lambda: _ended(engine))
    assert len(_search_trials(engine, TrialRow.id)) == 8
    assert _job(engine) == JobState.SUCCEEDED


def test_an_expired_lease_stops_a_replica_from_writing(engine: Engine, search_id: int) -> None:
    add_job(engine, [search_id], max_trials=64)
    with Farm(engine) as farm:
        farm.run_until(lambda: states(engine).get("done", 0) >= 1)
        with transaction(engine) as session:
            session.execute(
                update(SearchRow).values(
                    lease_owner="b",
                    lease_epoch=SearchRow.lease_epoch + 1,
                    lease_expires_at=utc_now(offset_secs=60),
                )
            )
        before = read(engine, TrialRow.id), read(engine, TrialRow.attempt)
        farm.sent.clear()
        farm.tick(5)
        assert (read(engine, TrialRow.id), read(engine, TrialRow.attempt)) == before
        assert farm.sent == []


def test_watchers_hear_of_every_change_but_not_more_often_than_asked(engine: Engine, search_id: int) -> None:
    add_job(engine, [search_id], max_trials=8)
    with Farm(engine, revision_secs=3600.0) as farm:
        farm.run_until(lambda: _ended(engine))
    # start, one throttled telling, and the end
    assert read(engine, JobRow.revision) == [4]
