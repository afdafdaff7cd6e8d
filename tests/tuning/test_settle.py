"""Settling decides again on the rows that it has locked, and writes in no other job's name."""

from sqlalchemy import Engine

from db import progress, searches
from db.session import reading
from db.states import Purpose
from db.tables import TrialRow
from services.tuning.settings import TunerSettings
from services.tuning.settle import Settling, settle
from tests.tuning.rows import add_job, add_search, add_target, add_trials, claim, ok, read

SETTINGS = TunerSettings(database_url="sqlite://", broker_url="memory://")


def test_no_confirmation_is_asked_for_in_the_name_of_a_job_that_is_not_locked(engine: Engine) -> None:
    """It may be cancelled meanwhile: its trial would wait for ever, and the whole search for that."""
    search_id = add_search(engine, add_target(engine))
    [paused] = add_job(engine, [search_id], state="paused")
    add_job(engine, [search_id], job_id="job-2", state="running")
    add_trials(engine, search_id, paused, 1, **ok(0.001))
    lease = claim(engine, search_id)
    with reading(engine) as session:
        search = searches.read_searches(session, [search_id])[search_id]
        looked_at = [task for task in progress.open_tasks(session, [search_id]) if task.id == paused]
    settling = Settling(
        lease=lease, search=search, tasks=looked_at, ending=[paused], exhausted=False, stopped={}
    )
    settle(engine, settling, SETTINGS)
    assert read(engine, TrialRow.id, TrialRow.purpose == Purpose.CONFIRM) == []
