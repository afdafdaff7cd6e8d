"""What operators count over the whole farm: a handful of grouped queries, nothing per job or workload."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from db.clock import utc_now
from db.jobs import ENDED
from db.states import JobState, SearchState, TaskState
from db.tables import JobRow, RecordRow, SearchRow, TargetRow, TaskRow, TrialRow


@dataclass(frozen=True, slots=True, kw_only=True)
class FarmCounts:
    jobs: Mapping[str, int]
    #: By state, of jobs that have not ended.
    open_trials: Mapping[str, int]
    #: By outcome, of all trials ever: a trial keeps its Outcome, so none of these ever falls.
    outcomes: Mapping[str, int]
    records: Mapping[str, int]
    #: Leases that have not expired, and the replicas that hold them.
    leases: int
    lease_owners: int
    #: Searches that a running job needs and that nobody leases.
    searches_waiting: int
    #: Keys of the targets of jobs that have not ended.
    wanted_targets: frozenset[str]


def count_farm(session: Session) -> FarmCounts:
    leased = SearchRow.lease_expires_at > utc_now()
    leases, owners = session.execute(
        select(func.count(), func.count(SearchRow.lease_owner.distinct())).where(leased)
    ).one()
    targets = (
        select(TargetRow.key)
        .where(TargetRow.id.in_(select(JobRow.target_id).where(JobRow.state.not_in(ENDED))))
    )  # fmt: skip
    return FarmCounts(
        jobs=_by(session, JobRow.state),
        open_trials=_open_trials(session),
        outcomes=_by(session, TrialRow.outcome),
        records=_by(session, RecordRow.state),
        leases=leases,
        lease_owners=owners,
        searches_waiting=_waiting(session),
        wanted_targets=frozenset(session.scalars(targets)),
    )


def _by(session: Session, column: InstrumentedAttribute[Any]) -> dict[str, int]:
    statement = select(column, func.count()).where(column.is_not(None)).group_by(column)
    return {row[0]: row[1] for row in session.execute(statement)}


def _open_trials(session: Session) -> dict[str, int]:
    statement = (
        select(TrialRow.state, func.count())
        .join(JobRow, JobRow.id == TrialRow.job_id)
        .where(JobRow.state.not_in(ENDED))
        .group_by(TrialRow.state)
    )
    return {row[0]: row[1] for row in session.execute(statement)}


def _waiting(session: Session) -> int:
    free = SearchRow.lease_expires_at.is_(None) | (SearchRow.lease_expires_at <= utc_now())
    statement = (
        select(func.count(SearchRow.id.distinct()))
        .join(TaskRow, TaskRow.search_id == SearchRow.id)
        .join(JobRow, JobRow.id == TaskRow.job_id)
        .where(
            free,
            SearchRow.state == SearchState.ACTIVE,
            JobRow.state == JobState.RUNNING,
            TaskRow.state.in_((TaskState.QUEUED, TaskState.RUNNING)),
        )
    )
    return session.scalars(statement).one()
