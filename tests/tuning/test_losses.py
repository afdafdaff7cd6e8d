"""The whole service on rows: whatever is killed, lost, doubled, wrong or away, jobs end all the same."""

import time
from typing import Any

import pytest
from sqlalchemy import Engine, update
from sqlalchemy.exc import OperationalError

from db import progress
from db.clock import utc_now
from db.session import transaction
from db.states import JobState, Outcome, Purpose, RecordState, TaskState, TrialState
from db.tables import JobRow, RecordRow, SearchRow, TaskRow, TrialRow
from sandbox.errors import ChildTimeout
from tests.tuning.farm import WORKER, Farm, ScriptedChild, ok, outcome, program, wrong_at_confirm
from tests.tuning.jobs import ended, job_state, search_trials
from tests.tuning.rows import add_job, add_search, add_target, add_worker, heard, read, states
from workers.messages import TrialOrder, TrialOutcome, TrialStarted


@pytest.fixture
def target_id(engine: Engine) -> int:
    target_id = add_target(engine)
    add_worker(engine, target_id, worker_id=WORKER)
    return target_id


@pytest.fixture
def search_id(engine: Engine, target_id: int) -> int:
    return add_search(engine, target_id)


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
        farm.run_until(lambda: ended(engine))
    assert job_state(engine) == JobState.SUCCEEDED
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
        while not ended(engine, *jobs):
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
        farm.run_until(lambda: ended(engine))
    assert job_state(engine) == JobState.SUCCEEDED
    assert read(engine, TaskRow.state) == [TaskState.FAILED, TaskState.SUCCEEDED]
    error = read(engine, TaskRow.error)[0]
    assert f"search {bad}" in error
    assert "TVM does not survive this module" in error
    assert read(engine, SearchRow.crashes, SearchRow.id == bad) == [3]


class HangingChild(ScriptedChild):
    """It answers nothing and lives on, until it is killed."""

    def recv(self, _timeout_secs: float | None) -> tuple[dict[str, Any], list[bytes]]:
        self.closed.wait(30)
        raise ChildTimeout("it did not answer")


def test_a_child_that_hangs_in_one_replica_does_not_hold_up_the_others(
    engine: Engine, target_id: int
) -> None:
    """The rule chooses a search of the replica that is stuck, again and again."""
    searches = [add_search(engine, target_id, name=str(number)) for number in range(4)]
    add_job(engine, searches, max_trials=16)

    def tried() -> set[int]:
        return set(search_trials(engine, TrialRow.search_id))

    with (
        Farm(engine, child=HangingChild, max_leases=2, lease_secs=1.0) as stuck,
        Farm(engine, owner="b", max_leases=2, lease_secs=1.0) as other,
    ):
        deadline = time.monotonic() + 20
        while tried() != set(searches[2:]):
            assert time.monotonic() < deadline
            for farm in (stuck, other):
                farm.tick()
                farm.measure()


def test_a_search_whose_row_does_not_read_harms_no_other(engine: Engine, target_id: int) -> None:
    bad = add_search(engine, target_id, name="bad", policy=[1])
    good = add_search(engine, target_id, name="good")
    for number, search in enumerate((bad, good), start=1):
        add_job(engine, [search], job_id=f"job-{number}")
    with Farm(engine) as farm:
        farm.run_until(lambda: ended(engine, "job-2"))
    assert job_state(engine, "job-2") == JobState.SUCCEEDED
    assert job_state(engine, "job-1") == JobState.RUNNING


def test_a_new_job_gives_a_failed_search_another_chance(engine: Engine, search_id: int) -> None:
    add_job(engine, [search_id])
    with Farm(engine, child=lambda: ScriptedChild(dies=True), max_crashes=1) as farm:
        farm.run_until(lambda: ended(engine))
    assert job_state(engine) == JobState.FAILED
    assert "SIGSEGV" in read(engine, JobRow.error)[0]
    add_job(engine, [search_id], job_id="job-2")
    with Farm(engine) as farm:
        farm.run_until(lambda: ended(engine, "job-2"))
    assert job_state(engine, "job-2") == JobState.SUCCEEDED


def test_a_reference_that_cannot_be_computed_fails_the_task_and_measures_no_candidate(
    engine: Engine, search_id: int
) -> None:
    def answer(order: TrialOrder) -> TrialOutcome:
        return outcome(order, Outcome.REJECTED, error="reference: ran out of memory")

    add_job(engine, [search_id])
    with Farm(engine) as farm:
        farm.run_until(lambda: ended(engine), answer=answer)
        assert len(farm.all_sent) == 1
    assert job_state(engine) == JobState.FAILED
    assert "reference: ran out of memory" in read(engine, TaskRow.error)[0]
    assert set(states(engine)) <= {"done", "cancelled"}
    add_job(engine, [search_id], job_id="job-2")
    with Farm(engine) as farm:
        farm.run_until(lambda: ended(engine, "job-2"))
    assert job_state(engine, "job-2") == JobState.SUCCEEDED


def test_a_job_without_any_ok_outcome_fails_with_the_first_reason(engine: Engine, search_id: int) -> None:
    def answer(order: TrialOrder) -> TrialOutcome:
        return outcome(order, Outcome.BUILD_ERROR, error="LLVM said no")

    add_job(engine, [search_id])
    with Farm(engine) as farm:
        farm.run_until(lambda: ended(engine), answer=answer)
    assert job_state(engine) == JobState.FAILED
    assert "build_error: LLVM said no" in read(engine, JobRow.error)[0]
    assert read(engine, RecordRow.id) == []


def test_a_program_whose_output_is_wrong_at_confirmation_is_never_published(
    engine: Engine, search_id: int
) -> None:
    add_job(engine, [search_id], max_trials=4)
    with Farm(engine) as farm:
        farm.run_until(lambda: ended(engine), answer=wrong_at_confirm)
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
        farm.run_until(lambda: ended(engine))
        published = read(engine, RecordRow.id)
        add_job(engine, [search_id], job_id="job-2", max_trials=4)
        farm.run_until(lambda: ended(engine, "job-2"), answer=optimistic)
    assert read(engine, RecordRow.id) == published
    assert job_state(engine, "job-2") == JobState.SUCCEEDED
    assert set(read(engine, RecordRow.state)) == {RecordState.PUBLISHED}


def test_partial_results_are_published_while_a_long_job_runs(engine: Engine, search_id: int) -> None:
    add_job(engine, [search_id], max_trials=64)
    with Farm(engine) as farm:
        farm.run_until(lambda: len(read(engine, RecordRow.id)) == 1)
        assert job_state(engine) == JobState.RUNNING


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
        farm.run_until(lambda: ended(engine))
    assert job_state(engine) == JobState.SUCCEEDED
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
            if ended(engine):
                break
    [lost] = read(engine, TrialRow.id, TrialRow.state == TrialState.FAILED)
    assert read(engine, TrialRow.outcome, TrialRow.id == lost) == [Outcome.WORKER_LOST]
    assert read(engine, TrialRow.started_attempts, TrialRow.id == lost) == [3]
    assert job_state(engine) == JobState.SUCCEEDED


def test_a_lost_doorbell_is_rung_again_when_the_worker_idles(engine: Engine, search_id: int) -> None:
    add_job(engine, [search_id], max_trials=2)
    with Farm(engine, reconcile_secs=0.001, unheard_secs=0.1) as farm:
        farm.run_until(lambda: len(farm.sent) == 1, answer=ok)
        farm.sent.clear()

        def over() -> bool:
            heard(engine, WORKER)
            return ended(engine)

        farm.run_until(over)
    assert job_state(engine) == JobState.SUCCEEDED


def test_a_worker_that_lives_loses_no_trial_however_late_its_heartbeats_are(
    engine: Engine, search_id: int
) -> None:
    """Trials wait long, start between two heartbeats, and outcomes are lost: none counts as a dead worker."""
    add_job(engine, [search_id], max_trials=2)
    attempts_of_first: list[int] = []

    with Farm(engine, reconcile_secs=0.001, outcome_secs=0.01) as farm:
        deadline = time.monotonic() + 20
        while not ended(engine):
            assert time.monotonic() < deadline
            farm.tick()
            chunks, farm.sent = farm.sent, []
            for order in (order for chunk in chunks for order in chunk.trials):
                farm.tick(3)
                started = TrialStarted(trial_id=order.trial_id, attempt=order.attempt, worker_id=WORKER)
                farm.report(started)
                farm.tick()
                assert read(engine, TrialRow.state, TrialRow.id == order.trial_id) == ["dispatched"]
                if program(order) == 0 and order.purpose is Purpose.SEARCH and order.attempt <= 4:
                    attempts_of_first.append(order.attempt)
                    continue
                farm.report(ok(order))
            heard(engine, WORKER)
    assert attempts_of_first == [1, 2, 3, 4]
    assert set(states(engine)) == {"done"}
    assert job_state(engine) == JobState.SUCCEEDED


def test_a_broker_that_is_down_loses_and_doubles_nothing(engine: Engine, search_id: int) -> None:
    add_job(engine, [search_id], max_trials=8)
    with Farm(engine, broker_retry_secs=0.05) as farm:
        farm.broker_is_down = True
        farm.run_until(lambda: len(search_trials(engine, TrialRow.id)) == 4)
        farm.tick(10)
        assert set(states(engine)) == {"queued"}
        farm.broker_is_down = False
        farm.run_until(lambda: ended(engine))
    assert len(search_trials(engine, TrialRow.id)) == 8
    assert job_state(engine) == JobState.SUCCEEDED


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


def test_a_telling_that_the_database_did_not_take_is_told_again(
    engine: Engine, search_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_job(engine, [search_id], state="running")
    with Farm(engine) as farm:
        farm.tick()
        [before] = read(engine, JobRow.revision)

        def away(*_arguments: object) -> None:
            raise OperationalError("UPDATE jobs", {}, Exception("the server is gone"))

        farm.revisions.changed({"job-1"})
        with monkeypatch.context() as patched:
            patched.setattr(progress, "raise_revisions", away)
            with pytest.raises(OperationalError):
                farm.tick()
        farm.tick()
    assert read(engine, JobRow.revision)[0] > before


def test_nothing_is_remembered_of_searches_that_are_over(engine: Engine, target_id: int) -> None:
    bad, good = (add_search(engine, target_id, name=name) for name in ("bad", "good"))
    lives = iter([ScriptedChild(dies=True)])
    add_job(engine, [bad, good], max_trials=8)
    with Farm(engine, child=lambda: next(lives, None) or ScriptedChild()) as farm:
        farm.run_until(lambda: ended(engine))
        farm.tick()
        assert farm.tuner._settled == farm.tuner._not_before == {}


def test_watchers_hear_of_every_change_but_not_more_often_than_asked(engine: Engine, search_id: int) -> None:
    add_job(engine, [search_id], max_trials=8)
    with Farm(engine, revision_secs=3600.0) as farm:
        farm.run_until(lambda: ended(engine))
    # start, one throttled telling, and the end
    assert read(engine, JobRow.revision) == [4]
