"""A farm whose builders do not time and whose devices do not build: nothing is lost between the two."""

from collections import Counter

import pytest
from sqlalchemy import Engine, select

from db.farm_tables import UsageRow
from db.session import reading
from db.states import JobState, Outcome, Purpose, WorkerRole
from db.tables import JobRow, TrialRow
from services.tuning import record
from tests.tuning.farm import Farm, ok, outcome
from tests.tuning.rows import add_job, add_search, add_target, add_worker, read, set_worker, sha256, states
from workers.messages import (
    Built,
    MeasureChunk,
    TrialBuilt,
    TrialOrder,
    TrialOutcome,
    TrialStarted,
    TrialUnbuilt,
)

BUILT = Built(kernel=sha256("kernel"), reference=sha256("reference"))


@pytest.fixture
def search_id(engine: Engine) -> int:
    target_id = add_target(engine)
    for role in (WorkerRole.BUILD, WorkerRole.MEASURE):
        add_worker(engine, target_id, worker_id=str(role), name=role, role=role)
    return add_search(engine, target_id)


def started(order: TrialOrder, role: WorkerRole) -> TrialStarted:
    return TrialStarted(trial_id=order.trial_id, attempt=order.attempt, worker_id=role)


def built(order: TrialOrder) -> TrialBuilt:
    return TrialBuilt(
        trial_id=order.trial_id,
        attempt=order.attempt,
        worker_id="build",
        built=BUILT,
        stage_secs={"build": 0.5},
    )


def unbuilt(order: TrialOrder) -> TrialUnbuilt:
    return TrialUnbuilt(trial_id=order.trial_id, attempt=order.attempt, worker_id="measure", reason="gone")


def work(farm: Farm, chunk: MeasureChunk, *, lose: bool = False) -> None:
    """What workers of the chunk's role answer, each answer doubled."""
    role = farm.roles[chunk.chunk_id]
    for order in chunk.trials:
        answer: TrialBuilt | TrialUnbuilt | TrialOutcome
        if role is WorkerRole.BUILD:
            assert order.built is None
            answer = built(order)
            farm.report(started(order, role), answer, answer)
        elif lose:
            farm.report(unbuilt(order), unbuilt(order))
        else:
            assert order.built == BUILT
            answer = ok(order)
            farm.report(started(order, role), answer, answer)


def ended(engine: Engine) -> bool:
    return JobState(read(engine, JobRow.state)[0]).ended


def run(farm: Farm, *, lose_first: int = 0) -> Counter[WorkerRole]:
    """To the end of the job; trials sent by role."""
    sent = Counter[WorkerRole]()
    for _ in range(400):
        if ended(farm.engine):
            return sent
        farm.tick()
        chunks, farm.sent = farm.sent, []
        for chunk in chunks:
            role = farm.roles[chunk.chunk_id]
            sent[role] += len(chunk.trials)
            lose = role is WorkerRole.MEASURE and lose_first > 0
            lose_first -= lose
            work(farm, chunk, lose=lose)
    raise AssertionError(f"the job did not end: {states(farm.engine)}")


def test_each_trial_is_built_then_measured(engine: Engine, search_id: int) -> None:
    add_job(engine, [search_id], max_trials=10)
    with Farm(engine) as farm:
        sent = run(farm)
    assert read(engine, JobRow.state) == [JobState.SUCCEEDED]
    assert sent.keys() == {WorkerRole.BUILD, WorkerRole.MEASURE}
    assert sent[WorkerRole.BUILD] == sent[WorkerRole.MEASURE] == len(read(engine, TrialRow.id))
    assert len(read(engine, TrialRow.id, TrialRow.purpose == Purpose.SEARCH)) == 10
    assert set(read(engine, TrialRow.attempt)) == {2}
    assert set(read(engine, TrialRow.started_attempts)) == {1}
    assert set(read(engine, TrialRow.built)) == {None}
    assert [secs["build"] for secs in read(engine, TrialRow.stage_secs)] == pytest.approx(
        [0.51] * sent[WorkerRole.BUILD]
    )
    assert set(states(engine)) == {"done"}


def test_an_artifact_that_is_lost_is_built_again_and_its_trial_is_not_lost(
    engine: Engine, search_id: int
) -> None:
    add_job(engine, [search_id], max_trials=10)
    with Farm(engine) as farm:
        sent = run(farm, lose_first=5)
    assert read(engine, JobRow.state) == [JobState.SUCCEEDED]
    assert set(states(engine)) == {"done"}
    assert set(read(engine, TrialRow.outcome)) == {Outcome.OK}
    assert sent[WorkerRole.BUILD] == sent[WorkerRole.MEASURE] > len(read(engine, TrialRow.id))
    assert max(read(engine, TrialRow.attempt)) >= 4
    assert set(read(engine, TrialRow.started_attempts)) == {1}


def test_an_artifact_that_is_always_lost_ends_as_the_farms_failure(
    engine: Engine, search_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "MAX_ATTEMPTS", 6)
    add_job(engine, [search_id], max_trials=4)
    with Farm(engine) as farm:
        run(farm, lose_first=10_000)
    assert set(read(engine, TrialRow.outcome)) == {Outcome.WORKER_LOST}
    assert "lost again and again" in read(engine, TrialRow.error)[0]


def test_a_candidate_that_does_not_build_needs_no_device(engine: Engine, search_id: int) -> None:
    add_job(engine, [search_id], max_trials=4)
    with Farm(engine) as farm:
        farm.run_until(lambda: bool(farm.sent))
        (chunk,) = farm.sent
        farm.report(*[outcome(order, Outcome.BUILD_ERROR, error="no") for order in chunk.trials])
        assert read(engine, TrialRow.outcome, TrialRow.id == chunk.trials[0].trial_id) == ["build_error"]


def test_a_doubled_notice_of_an_earlier_stage_changes_nothing(engine: Engine, search_id: int) -> None:
    add_job(engine, [search_id], max_trials=4)
    with Farm(engine) as farm:
        farm.run_until(lambda: bool(farm.sent))
        (first,) = farm.sent[0].trials
        farm.report(started(first, WorkerRole.BUILD), built(first))
        farm.sent.clear()
        farm.run_until(lambda: bool(farm.sent))
        (second,) = farm.sent[0].trials
        farm.report(built(first), unbuilt(first), outcome(first, Outcome.BUILD_ERROR, error="late"))
        assert (second.trial_id, second.attempt) == (first.trial_id, first.attempt + 1)
        mine = TrialRow.id == first.trial_id
        assert read(engine, TrialRow.state, mine) == ["dispatched"]
        farm.report(ok(second))
        assert read(engine, TrialRow.outcome, mine) == ["ok"]


def test_what_was_built_is_built_again_by_workers_that_do_both_where_the_boards_are_gone(
    engine: Engine, search_id: int
) -> None:
    add_job(engine, [search_id], max_trials=4)
    with Farm(engine) as farm:
        farm.run_until(lambda: bool(farm.sent))
        farm.report(built(farm.sent[0].trials[0]))
        set_worker(engine, "measure", state="left")
        set_worker(engine, "build", role="both")
        farm.sent.clear()
        farm.run_until(lambda: bool(farm.sent))
        assert farm.roles[farm.sent[0].chunk_id] is WorkerRole.BOTH
        assert farm.sent[0].trials[0].built is None
        farm.run_until(lambda: ended(engine))
    assert read(engine, JobRow.state) == [JobState.SUCCEEDED]


def test_only_the_devices_time_counts_for_the_owner(engine: Engine, search_id: int) -> None:
    add_job(engine, [search_id], max_trials=4)
    with Farm(engine) as farm:
        run(farm)
    with reading(engine) as session:
        (used,) = session.scalars(select(UsageRow.device_secs))
    assert used == pytest.approx(0.01 * len(read(engine, TrialRow.id)), rel=0.05)
