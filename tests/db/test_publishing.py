"""The current record is the newest published one of exactly that workload, target and TVM version."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from sqlalchemy import Engine, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from db import publishing, searches
from db.searches import Search
from db.session import transaction
from db.states import Outcome, Purpose, RecordState
from db.tables import RecordRow, TrialRow
from tests.tuning.rows import add_job, add_search, add_target, add_trials, ok


@pytest.fixture
def search_id(engine: Engine) -> int:
    return add_search(engine, add_target(engine))


@pytest.fixture
def confirms(engine: Engine, search_id: int) -> list[int]:
    [task_id] = add_job(engine, [search_id], state="running")
    fields = ok(0.002, run_secs=[0.004, 0.001, 0.002], purpose=Purpose.CONFIRM, incumbent_run_secs=[0.003])
    return add_trials(engine, search_id, task_id, 2, **fields)


@pytest.fixture
def session(engine: Engine) -> Iterator[Session]:
    with transaction(engine) as session:
        yield session


def _search(session: Session, search_id: int) -> Search:
    return searches.read_searches(session, [search_id])[search_id]


def test_a_published_confirmation_becomes_the_incumbent(
    session: Session, search_id: int, confirms: list[int]
) -> None:
    search = _search(session, search_id)
    assert publishing.incumbent(session, search) is None
    first = publishing.publish(session, search, confirm_trial_id=confirms[0])
    second = publishing.publish(session, search, confirm_trial_id=confirms[1])
    current = publishing.incumbent(session, search)
    assert current is not None
    assert current.record_id == second > first
    assert current.latency_secs == 0.002
    assert [c.published for c in publishing.confirmations(session, search_id)] == [True, True]


def test_another_target_or_version_has_no_incumbent(
    session: Session, search_id: int, confirms: list[int]
) -> None:
    search = _search(session, search_id)
    publishing.publish(session, search, confirm_trial_id=confirms[0])
    assert publishing.incumbent(session, replace(search, target_id=search.target_id + 1)) is None
    assert publishing.incumbent(session, replace(search, tvm_version="0.28.0")) is None


@pytest.mark.parametrize("state", [RecordState.QUARANTINED, RecordState.REVOKED])
def test_a_record_that_may_not_be_used_is_no_incumbent(
    session: Session, search_id: int, confirms: list[int], state: RecordState
) -> None:
    search = _search(session, search_id)
    publishing.publish(session, search, confirm_trial_id=confirms[0])
    session.execute(update(RecordRow).values(state=state))
    assert publishing.incumbent(session, search) is None


def test_a_confirmation_cannot_be_published_twice(
    engine: Engine, search_id: int, confirms: list[int]
) -> None:
    def publish() -> None:
        with transaction(engine) as session:
            publishing.publish(session, _search(session, search_id), confirm_trial_id=confirms[0])

    publish()
    with pytest.raises(IntegrityError):
        publish()


def test_contenders_are_the_fastest_ok_trials_and_the_baseline_is_one_of_them(
    engine: Engine, search_id: int
) -> None:
    [task_id] = add_job(engine, [search_id], state="running")
    slow = add_trials(engine, search_id, task_id, 1, **ok(0.003))
    fast = add_trials(engine, search_id, task_id, 1, **ok(0.001))
    add_trials(engine, search_id, task_id, 1, **ok(0.0001, outcome=Outcome.CUT_OFF))
    baseline = add_trials(engine, search_id, task_id, 1, **ok(0.002, purpose=Purpose.BASELINE))
    with transaction(engine) as session:
        found = publishing.contenders(session, search_id, limit=5)
        traces = publishing.contender_trace(session, fast[0])
        confirmed = session.get_one(TrialRow, fast[0]).trace_z
    assert [contender.trial_id for contender in found] == fast + baseline + slow
    assert [contender.baseline for contender in found] == [False, True, False]
    assert traces == confirmed
