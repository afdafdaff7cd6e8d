"""A tuner replica of the release before, amid a rolling upgrade: words that it does not know stop no loop."""

import pytest
from sqlalchemy import Engine, update

from db.progress import end_job_if_done
from db.session import transaction
from db.states import JobState
from db.tables import JobRow, SearchRow, TaskRow, TrialRow
from tests.tuning.farm import WORKER, Farm
from tests.tuning.jobs import ended, job_state
from tests.tuning.rows import add_job, add_search, add_target, add_trials, add_worker, read, set_worker

NEW = "newer"


@pytest.fixture
def search_id(engine: Engine) -> int:
    target_id = add_target(engine)
    add_worker(engine, target_id, worker_id=WORKER)
    add_worker(engine, target_id, worker_id="worker-2", name="new", role=NEW, state=NEW, desired_state=NEW)
    search_id = add_search(engine, target_id)
    add_job(engine, [search_id], max_trials=8)
    return search_id


def test_a_job_runs_to_its_end_beside_one_of_unknown_words(engine: Engine, search_id: int) -> None:
    """They share a search, a target and a fleet with a worker of an unknown role."""
    [task_id] = add_job(engine, [search_id], job_id="job-2", state="running", desired_state=NEW)
    other = add_search(engine, read(engine, SearchRow.target_id)[0], name="other", state=NEW)
    [other_task_id] = add_job(engine, [other], job_id="job-3", state="running")
    for word in ({"purpose": NEW}, {"state": NEW}, {"state": "done", "outcome": NEW}):
        add_trials(engine, search_id, task_id, 1, **word)
    add_trials(engine, other, other_task_id, 1, state="dispatched", role=NEW, attempt=1, worker_id="worker-2")
    [odd] = add_trials(engine, other, other_task_id, 1, purpose=NEW)
    with Farm(engine) as farm:
        farm.run_until(lambda: ended(engine))
    assert odd not in {order.trial_id for chunk in farm.all_sent for order in chunk.trials}
    assert job_state(engine) == JobState.SUCCEEDED
    # Whoever knows the word decides on it.
    assert read(engine, JobRow.state, JobRow.id == "job-2") == ["running"]
    assert read(engine, TrialRow.outcome, TrialRow.outcome == NEW) == [NEW]


def test_no_job_ends_over_a_task_in_an_unknown_state(engine: Engine, search_id: int) -> None:
    del search_id
    with transaction(engine) as session:
        session.execute(update(TaskRow).values(state=NEW))
        assert end_job_if_done(session, "job-1") is None


def test_a_worker_of_an_unknown_state_takes_nothing(engine: Engine, search_id: int) -> None:
    del search_id
    set_worker(engine, WORKER, state=NEW)
    with Farm(engine) as farm:
        farm.tick(5)
        assert farm.all_sent == []
