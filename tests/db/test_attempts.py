"""Each transition of a trial is one compare-and-set: late, doubled and reordered results change nothing."""

import statistics
import threading
from typing import Any

import pytest
from sqlalchemy import Engine, update

from db import attempts, rounds, trials
from db.clock import utc_now
from db.dispatched import dispatched_trials
from db.reports import Measured, Reports
from db.session import reading, transaction
from db.states import Outcome, Purpose, TrialState
from db.tables import JobRow, SearchRow, TrialRow
from tests.tuning.rows import add_job, add_search, add_target, add_trials, claim, ok, read, states


class Farm:
    """One search, one running job with one task."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.search_id = add_search(engine, add_target(engine))
        [self.task_id] = add_job(engine, [self.search_id], state="running")

    def add(self, count: int, **values: Any) -> list[int]:
        return add_trials(self.engine, self.search_id, self.task_id, count, **values)

    def dispatch(self, *, limit: int = 8, chunk_id: str = "c", deadline_secs: float = 60.0) -> list[int]:
        with transaction(self.engine) as session:
            taken = attempts.dispatch(
                session,
                search_id=self.search_id,
                job_id="job-1",
                purpose=Purpose.SEARCH,
                limit=limit,
                chunk_id=chunk_id,
                deadline_secs=deadline_secs,
            )
        return [trial.id for trial in taken]

    def record(self, trial_id: int, *, attempt: int = 1, secs: float = 0.001) -> bool:
        with transaction(self.engine) as session:
            reports = Reports.open(session, [trial_id])
            counts = reports.measured(measured(trial_id, attempt=attempt, secs=secs))
            reports.write()
        return counts

    def start(self, trial_id: int, *, attempt: int = 1, times: int = 1) -> list[bool]:
        """Notices of one batch."""
        with transaction(self.engine) as session:
            reports = Reports.open(session, [trial_id])
            counted = [reports.started(trial_id, attempt=attempt, worker_id="w") for _ in range(times)]
            reports.write()
        return counted


@pytest.fixture
def farm(engine: Engine) -> Farm:
    return Farm(engine)


def measured(trial_id: int, *, attempt: int = 1, secs: float = 0.001) -> Measured:
    return Measured(
        trial_id=trial_id,
        attempt=attempt,
        worker_id="worker-1",
        outcome=Outcome.OK,
        run_secs=[secs],
        latency_secs=statistics.median([secs]),
        incumbent_run_secs=None,
        error=None,
        stage_secs={"build": 0.1},
        device_class="cpu",
        tvm_version="0.27.0",
    )


def test_a_chunk_takes_the_oldest_trials_and_counts_their_attempt(farm: Farm) -> None:
    ids = farm.add(3)
    assert farm.dispatch(limit=2) == ids[:2]
    assert read(farm.engine, TrialRow.attempt) == [1, 1, 0]
    assert states(farm.engine) == {"dispatched": 2, "queued": 1}


def test_an_outcome_counts_once(farm: Farm) -> None:
    [trial_id] = farm.add(1)
    farm.dispatch()
    assert farm.record(trial_id, secs=0.001)
    assert not farm.record(trial_id, secs=0.002)
    assert read(farm.engine, TrialRow.run_secs) == [[0.001]]


def test_an_outcome_of_an_earlier_attempt_is_late(farm: Farm) -> None:
    [trial_id] = farm.add(1)
    farm.dispatch()
    with transaction(farm.engine) as session:
        assert attempts.ring_again(session, trial_id, attempt=1)
        assert not attempts.ring_again(session, trial_id, attempt=1)
    assert not farm.record(trial_id, attempt=1)
    farm.dispatch(chunk_id="d")
    assert not farm.record(trial_id, attempt=1)
    assert farm.record(trial_id, attempt=2)


def test_an_outcome_after_a_cancel_changes_nothing(farm: Farm) -> None:
    ids = farm.add(2)
    farm.dispatch(limit=1)
    with transaction(farm.engine) as session:
        assert trials.cancel_trials(session, "job-1") == 2
    assert not farm.record(ids[0])
    assert states(farm.engine) == {"cancelled": 2}


def test_a_doubled_or_reordered_start_notice_counts_once(farm: Farm) -> None:
    [trial_id] = farm.add(1)
    farm.dispatch()
    assert farm.start(trial_id, times=2) == [True, False]
    assert farm.start(trial_id) == [False]
    assert farm.record(trial_id)
    assert farm.start(trial_id) == [False]
    assert read(farm.engine, TrialRow.started_attempts) == [1]


def test_a_trial_that_a_worker_was_lost_over_goes_alone(farm: Farm) -> None:
    ids = farm.add(3)
    with transaction(farm.engine) as session:
        session.execute(update(TrialRow).where(TrialRow.id == ids[0]).values(started_attempts=1))
    assert farm.dispatch(chunk_id="c1") == ids[1:]
    assert farm.dispatch(chunk_id="c2") == ids[:1]


@pytest.mark.parametrize(("column", "value"), [("state", "paused"), ("desired_state", "cancelled")])
def test_nothing_of_a_job_that_may_not_run_is_dispatched(farm: Farm, column: str, value: str) -> None:
    farm.add(1)
    with transaction(farm.engine) as session:
        session.execute(update(JobRow).values({column: value}))
    assert farm.dispatch() == []


def test_two_dispatchers_never_take_the_same_trial(farm: Farm) -> None:
    farm.add(16)
    taken: list[list[int]] = []
    threads = [
        threading.Thread(target=lambda n=n: taken.append(farm.dispatch(limit=16, chunk_id=f"c{n}")))
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ids = [trial_id for chunk in taken for trial_id in chunk]
    assert len(ids) == len(set(ids)) == 16
    assert set(read(farm.engine, TrialRow.attempt)) == {1}


def test_a_pause_calls_trials_back_and_a_resume_puts_them_into_the_newest_round(farm: Farm) -> None:
    [trial_id] = farm.add(1)
    farm.dispatch()
    with transaction(farm.engine) as session:
        assert trials.call_back(session, "job-1") == 1
        from db.tables import SearchRow

        session.execute(update(SearchRow).values(rounds=5))
        trials.join_newest_round(session, "job-1")
    assert not farm.record(trial_id)
    assert read(farm.engine, TrialRow.round) == [4]


def test_an_attempt_that_a_pause_called_back_is_no_worker_that_was_lost(farm: Farm) -> None:
    started, waiting = farm.add(2)
    farm.dispatch()
    assert farm.start(started) == [True]
    with transaction(farm.engine) as session:
        assert trials.call_back(session, "job-1") == 2
    assert read(farm.engine, TrialRow.started_attempts) == [0, 0]
    assert farm.dispatch(chunk_id="d") == [started, waiting]


def test_a_round_sees_closed_trials_of_its_past_and_never_more(farm: Farm) -> None:
    seen = farm.add(1, round=0, **ok(0.002))
    failed = farm.add(1, round=0, state=TrialState.FAILED, outcome=Outcome.WORKER_LOST)
    farm.add(1, round=1, **ok(0.001))
    farm.add(1, round=0, state=TrialState.CANCELLED)
    with reading(farm.engine) as session:
        known = rounds.known_trials(session, farm.search_id, up_to_round=0)
        unseen = rounds.unseen_programs(session, farm.search_id, up_to_round=0)
    assert [trial.id for trial in known] == seen + failed
    assert unseen == [f"{2:016x}", f"{3:016x}"]


def test_the_best_latency_stands_on_the_search_and_what_lowered_it_is_an_improvement(farm: Farm) -> None:
    ids = farm.add(4)
    farm.dispatch()
    with transaction(farm.engine) as session:
        reports = Reports.open(session, ids)
        for trial_id, secs in zip(ids, (0.002, 0.003, 0.002, 0.001), strict=True):
            assert reports.measured(measured(trial_id, secs=secs))
        reports.write()
    assert read(farm.engine, SearchRow.best_latency_secs) == [0.001]
    assert read(farm.engine, SearchRow.best_trial_id) == [ids[3]]
    assert read(farm.engine, TrialRow.improved) == [True, False, False, True]


def test_what_is_told_in_one_batch_is_what_it_would_be_told_one_by_one(farm: Farm) -> None:
    first, second, third = farm.add(3)
    farm.dispatch()
    with transaction(farm.engine) as session:
        reports = Reports.open(session, [third, first, second])
        assert not reports.started(first, attempt=2, worker_id="late")
        assert reports.started(first, attempt=1, worker_id="w")
        assert reports.started(second, attempt=1, worker_id="w")
        assert reports.measured(measured(first))
        assert not reports.started(first, attempt=1, worker_id="doubled")
        assert not reports.measured(measured(first, secs=9.0))
        reports.write()
        assert reports.measured(measured(second, secs=0.002))
    assert read(farm.engine, TrialRow.started_attempts) == [1, 1, 0]
    assert read(farm.engine, TrialRow.worker_id) == ["worker-1", "w", None]
    assert read(farm.engine, TrialRow.latency_secs) == [0.001, None, None]
    assert states(farm.engine) == {"done": 1, "dispatched": 2}
    assert not farm.record(first)
    assert farm.record(second)


def test_a_trial_is_given_up_only_in_the_attempt_that_was_judged(farm: Farm) -> None:
    [trial_id] = farm.add(1)
    farm.dispatch()
    with transaction(farm.engine) as session:
        assert not attempts.give_up(session, trial_id, attempt=0, error="lost")
        assert attempts.give_up(session, trial_id, attempt=1, error="lost")
    assert states(farm.engine) == {"failed": 1}
    assert read(farm.engine, TrialRow.outcome) == [Outcome.WORKER_LOST]


def test_ages_and_deadlines_are_the_databases(farm: Farm) -> None:
    farm.add(2)
    farm.dispatch(limit=1, chunk_id="c1", deadline_secs=60.0)
    farm.dispatch(limit=1, chunk_id="c2", deadline_secs=-1.0)
    with reading(farm.engine) as session:
        under_way = dispatched_trials(session)
    assert [trial.overdue for trial in under_way] == [False, True]
    assert all(0 <= trial.age_secs < 5 for trial in under_way)


def test_a_replica_looks_at_its_own_trials_and_at_those_that_nobody_tends(farm: Farm) -> None:
    farm.add(1)
    farm.dispatch()

    def seen_by(owner: str) -> int:
        with reading(farm.engine) as session:
            return len(dispatched_trials(session, tended_by=owner))

    assert seen_by("a") == seen_by("b") == 1
    claim(farm.engine, farm.search_id, owner="a")
    assert (seen_by("a"), seen_by("b")) == (1, 0)
    with transaction(farm.engine) as session:
        session.execute(update(SearchRow).values(lease_expires_at=utc_now(offset_secs=-1)))
    assert seen_by("b") == 1
