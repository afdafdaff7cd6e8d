"""Retention: traces and error texts of old losing trials may go.

Never a hash, an outcome, a time, features or a row: counts stay true, known programs stay known, and a search
can go on.
"""

from collections.abc import Sequence

from sqlalchemy import ColumnElement, exists, or_, select, update
from sqlalchemy.orm import Session

from db.clock import utc_now
from db.jobs import ENDED
from db.rowcount import changed
from db.states import Outcome, Purpose, TaskState, TrialState
from db.tables import JobRow, SearchRow, TaskRow, TrialRow

_CLOSED = (TrialState.DONE, TrialState.FAILED)
_OPEN_TASKS = (TaskState.QUEUED, TaskState.RUNNING)


def idle_searches(session: Session, *, after: int, limit: int) -> Sequence[int]:
    """Searches that found something and that no open task needs, by id, after one of them.

    Where nothing measured ok, the errors are all that is known: they stay.
    """
    needed = exists().where(TaskRow.search_id == SearchRow.id, TaskRow.state.in_(_OPEN_TASKS))
    statement = (
        select(SearchRow.id)
        .where(SearchRow.id > after, SearchRow.best_trial_id.is_not(None), ~needed)
        .order_by(SearchRow.id)
        .limit(limit)
    )
    return session.scalars(statement).all()


def thin(session: Session, search_id: int, *, keep: int, ended_before_secs: float, limit: int) -> int:
    """Drop traces and error texts of at most `limit` losers of a search; how many there were.

    The best `keep` by latency stay whole: they are what a search that goes on starts from. So do trials of
    jobs that ended less than `ended_before_secs` ago, the baseline, confirmations, and cancelled trials,
    which another job may ask for again.
    """
    best = (
        select(TrialRow.id)
        .where(*_of(search_id), TrialRow.outcome == Outcome.OK)
        .order_by(TrialRow.latency_secs, TrialRow.id)
        .limit(keep)
    )
    old_jobs = select(JobRow.id).where(
        JobRow.state.in_(ENDED), JobRow.finished_at < utc_now(offset_secs=-ended_before_secs)
    )
    losers = (
        select(TrialRow.id)
        .where(
            *_of(search_id),
            TrialRow.state.in_(_CLOSED),
            or_(TrialRow.trace_z.is_not(None), TrialRow.error.is_not(None)),
            TrialRow.id.not_in(best),
            TrialRow.job_id.in_(old_jobs),
        )
        .order_by(TrialRow.id)
        .limit(limit)
    )
    return changed(session, update(TrialRow).where(TrialRow.id.in_(losers)).values(trace_z=None, error=None))


def _of(search_id: int) -> tuple[ColumnElement[bool], ...]:
    return (TrialRow.search_id == search_id, TrialRow.purpose == Purpose.SEARCH)
