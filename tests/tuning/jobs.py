"""Jobs as the tests of the loop change and read them."""

from typing import Any

from sqlalchemy import Engine, update

from db.session import transaction
from db.states import JobState, Purpose
from db.tables import JobRow, TrialRow
from tests.tuning.rows import read


def set_job(engine: Engine, job_id: str = "job-1", **values: Any) -> None:
    with transaction(engine) as session:
        session.execute(update(JobRow).where(JobRow.id == job_id).values(**values))


def job_state(engine: Engine, job_id: str = "job-1") -> str:
    return str(read(engine, JobRow.state, JobRow.id == job_id)[0])


def ended(engine: Engine, *job_ids: str) -> bool:
    return all(JobState(job_state(engine, job_id)).ended for job_id in job_ids or ("job-1",))


def search_trials(engine: Engine, column: Any, job_id: str = "job-1") -> list[Any]:
    return read(engine, column, TrialRow.job_id == job_id, TrialRow.purpose == Purpose.SEARCH)
