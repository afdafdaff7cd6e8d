"""What is under way: dispatched trials, their counts by target, how long the newest took. Reads only."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from db.clock import secs_since, utc_now
from db.states import Purpose, TrialState, WorkerRole
from db.tables import JobRow, SearchRow, TrialRow


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchedTrial:
    id: int
    attempt: int
    started_attempts: int
    job_id: str
    search_id: int
    target_id: int
    #: Of the workers that it was sent to.
    role: WorkerRole
    #: The worker that reported this attempt started.
    worker_id: str | None
    age_secs: float
    overdue: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Outstanding:
    """How many trials are dispatched to a target's workers of one role, for one owner."""

    target_id: int
    role: WorkerRole
    owner: str
    count: int


def dispatched_trials(session: Session, *, tended_by: str | None = None) -> list[DispatchedTrial]:
    """Trials that are under way, with ages in database time.

    `tended_by`: only those of searches that this owner leases, and of searches that nobody does.
    """
    statement = (
        select(
            TrialRow.id,
            TrialRow.attempt,
            TrialRow.started_attempts,
            TrialRow.job_id,
            TrialRow.search_id,
            SearchRow.target_id,
            func.coalesce(TrialRow.role, WorkerRole.BOTH).label("role"),
            TrialRow.worker_id,
            secs_since(TrialRow.dispatched_at).label("age_secs"),
            (TrialRow.deadline_at < utc_now()).label("overdue"),
        )
        .join(SearchRow, SearchRow.id == TrialRow.search_id)
        .where(TrialRow.state == TrialState.DISPATCHED)
        .order_by(TrialRow.id)
    )
    if tended_by is not None:
        # An expired lease is nobody's: its owner may be dead.
        free = or_(SearchRow.lease_owner.is_(None), SearchRow.lease_expires_at <= utc_now())
        statement = statement.where(or_(SearchRow.lease_owner == tended_by, free))
    return [
        DispatchedTrial(**{**row._mapping, "role": WorkerRole.of(row.role)})  # noqa: SLF001 - SQLAlchemy's public name
        for row in session.execute(statement)
    ]


def outstanding(session: Session, target_ids: Collection[int]) -> list[Outstanding]:
    """What is dispatched to some targets, over all searches."""
    role = func.coalesce(TrialRow.role, WorkerRole.BOTH)
    statement = (
        select(SearchRow.target_id, role, JobRow.owner, func.count())
        .select_from(TrialRow)
        .join(SearchRow, SearchRow.id == TrialRow.search_id)
        .join(JobRow, JobRow.id == TrialRow.job_id)
        .where(TrialRow.state == TrialState.DISPATCHED, SearchRow.target_id.in_(target_ids))
        .group_by(SearchRow.target_id, role, JobRow.owner)
    )
    return [
        Outstanding(target_id=target_id, role=WorkerRole.of(sent_to), owner=owner, count=count)
        for target_id, sent_to, owner, count in session.execute(statement)
    ]


def recent_stage_secs(session: Session, target_id: int, *, limit: int) -> list[Mapping[str, float]]:
    """Seconds by stage of the target's newest measured search trials."""
    statement = (
        select(TrialRow.stage_secs)
        .join(SearchRow, SearchRow.id == TrialRow.search_id)
        .where(
            SearchRow.target_id == target_id,
            TrialRow.state == TrialState.DONE,
            TrialRow.purpose == Purpose.SEARCH,
        )
        .order_by(TrialRow.id.desc())
        .limit(limit)
    )
    return [stage_secs for stage_secs in session.scalars(statement) if stage_secs]
