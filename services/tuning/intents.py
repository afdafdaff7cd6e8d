"""Follows what users asked of their jobs: start, pause, resume, cancel. Budgets, priorities are read as rows.

Each job is its own transaction: its searches' rows first, then the job, then its trials, as everywhere.
Outcomes after a cancel match no row.
"""

import structlog
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from db import progress, searches, trials
from db.progress import OpenJob
from db.session import reading, transaction
from db.states import DesiredState, JobState

_log = structlog.get_logger(__name__)


def open_jobs(engine: Engine) -> list[OpenJob]:
    with reading(engine) as session:
        return progress.open_jobs(session)


def needs_change(job: OpenJob) -> bool:
    """Whether the job is not yet what its user wants."""
    if job.desired_state is DesiredState.CANCELLED or job.open_tasks == 0:
        return True
    if job.desired_state is DesiredState.PAUSED:
        return job.state is not JobState.PAUSED
    return job.state is not JobState.RUNNING


def follow(engine: Engine, job: OpenJob) -> None:
    """Bring a job to what its user wants."""
    with transaction(engine) as session:
        searches.lock_searches_of(session, job.id)
        if job.desired_state is DesiredState.CANCELLED:
            changed = _cancel(session, job.id)
        elif job.desired_state is DesiredState.PAUSED:
            changed = _pause(session, job.id)
        else:
            changed = _start(session, job)
        if job.open_tasks == 0 and job.desired_state is not DesiredState.CANCELLED:
            progress.end_job_if_done(session, job.id)
    if changed:
        _log.info("job_followed_intent", job_id=job.id, was=job.state, desired=job.desired_state)


def _cancel(session: Session, job_id: str) -> bool:
    if not progress.cancel_job(session, job_id):
        return False
    trials.cancel_trials(session, job_id)
    return True


def _pause(session: Session, job_id: str) -> bool:
    if not progress.pause_job(session, job_id):
        return False
    trials.call_back(session, job_id)
    trials.cancel_uncharged(session, job_id)
    return True


def _start(session: Session, job: OpenJob) -> bool:
    revived = searches.revive_failed(session, job.id) if job.state is JobState.QUEUED else []
    if not progress.start_job(session, job.id):
        return False
    trials.repeat_rejected_baselines(session, revived, job_id=job.id)
    trials.join_newest_round(session, job.id)
    return True
