"""How a search's best latency fell: its improvements, and the points of its trials. Read only.

An improvement is a search trial that measured ok and faster than every one done before it in its search:
db/attempts.py marks it when it is recorded.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from db.clock import secs_since
from db.states import Outcome, Purpose
from db.tables import TrialRow

_OUTCOMES = {outcome.value: outcome for outcome in Outcome}


@dataclass(frozen=True, slots=True, kw_only=True)
class Improvement:
    trial_id: int
    search_id: int
    latency_secs: float
    done_at: datetime
    #: Seconds since it was done.
    age_secs: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A trial that has ended, as a dot: latency_secs is None where nothing was measured."""

    trial_id: int
    #: Which search trial of its search it is, from 1.
    number: int
    outcome: Outcome
    latency_secs: float | None
    predicted_score: float | None
    round: int
    done_at: datetime


def improvements(session: Session, search_ids: Collection[int]) -> list[Improvement]:
    """Of some searches, in the order in which the trials were made."""
    statement = (
        select(
            TrialRow.id,
            TrialRow.search_id,
            TrialRow.latency_secs,
            TrialRow.done_at,
            secs_since(TrialRow.done_at).label("age_secs"),
        )
        .where(TrialRow.improved, TrialRow.search_id.in_(search_ids))
        .order_by(TrialRow.id)
    )
    return [
        Improvement(
            trial_id=row.id,
            search_id=row.search_id,
            latency_secs=row.latency_secs,
            done_at=row.done_at,
            age_secs=row.age_secs,
        )
        for row in session.execute(statement)
        if row.latency_secs is not None and row.done_at is not None
    ]


def curve_mark(session: Session, search_id: int) -> tuple[int, datetime | None]:
    """Changes whenever `points` of the search would."""
    statement = select(func.count(TrialRow.outcome), func.max(TrialRow.done_at)).where(
        TrialRow.search_id == search_id, TrialRow.purpose == Purpose.SEARCH
    )
    found = session.execute(statement).one()
    return found[0], found[1]


def points(session: Session, search_id: int, *, done_after: datetime | None = None) -> list[Point]:
    """Every search trial of a search that has an Outcome, in the order in which they were made.

    With `done_after` only those that were done since then; they are numbered among themselves.
    """
    statement = (
        select(
            TrialRow.id,
            TrialRow.outcome,
            TrialRow.latency_secs,
            TrialRow.predicted_score,
            TrialRow.round,
            TrialRow.done_at,
        )
        .where(
            TrialRow.search_id == search_id,
            TrialRow.purpose == Purpose.SEARCH,
            TrialRow.outcome.is_not(None),
            TrialRow.done_at.is_not(None),
        )
        .order_by(TrialRow.id)
    )
    if done_after is not None:
        statement = statement.where(TrialRow.done_at > done_after)
    # By place, not by name: a long search has 100,000 of them.
    return [
        Point(
            trial_id=trial_id,
            number=number,
            outcome=_OUTCOMES.get(outcome) or Outcome.of(outcome),
            latency_secs=latency_secs,
            predicted_score=score,
            round=round_,
            done_at=done_at,
        )
        for number, (trial_id, outcome, latency_secs, score, round_, done_at) in enumerate(
            session.execute(statement), 1
        )
        if outcome is not None and done_at is not None
    ]


def trial_numbers(
    session: Session, search_ids: Collection[int], trial_ids: Collection[int]
) -> dict[int, int]:
    """Which search trial of these searches together each of some trials is, from 1."""
    numbered = (
        select(TrialRow.id, func.row_number().over(order_by=TrialRow.id).label("number"))
        .where(TrialRow.search_id.in_(search_ids), TrialRow.purpose == Purpose.SEARCH)
        .subquery()
    )
    statement = select(numbered.c.id, numbered.c.number).where(numbered.c.id.in_(trial_ids))
    return {row[0]: row[1] for row in session.execute(statement)}
