"""Trials with their traces, for those who look at decisions: the fastest, and a sample of all. Read only."""

import zlib
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from db.states import Outcome, Purpose
from db.tables import SearchRow, TrialRow, WorkloadRow


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedTrial:
    trial_id: int
    latency_secs: float
    #: Trace JSON text.
    trace: str


def traced_trials(session: Session, search_id: int, *, fastest: int, sample: int) -> list[TracedTrial]:
    """Of a search's trials that measured ok and whose trace retention has kept: so many, by latency."""
    ids = set(session.scalars(_ok(search_id).order_by(TrialRow.latency_secs).limit(fastest)))
    numbered = _ok(search_id).add_columns(
        func.row_number().over(order_by=TrialRow.id).label("number"), func.count().over().label("total")
    )
    rows = numbered.subquery()
    every = rows.c.number * sample // rows.c.total != (rows.c.number - 1) * sample // rows.c.total
    ids.update(session.scalars(select(rows.c.id).where(every)))
    statement = (
        select(TrialRow.id, TrialRow.latency_secs, TrialRow.trace_z)
        .where(TrialRow.id.in_(ids), TrialRow.trace_z.is_not(None))
        .order_by(TrialRow.latency_secs, TrialRow.id)
    )
    return [
        TracedTrial(trial_id=trial_id, latency_secs=secs, trace=zlib.decompress(trace_z).decode())
        for trial_id, secs, trace_z in session.execute(statement)
        if secs is not None and trace_z is not None
    ]


def module_of_search(session: Session, search_id: int) -> str:
    """Canonical module JSON text of the search's workload."""
    statement = (
        select(WorkloadRow.module_z)
        .join(SearchRow, SearchRow.workload_id == WorkloadRow.id)
        .where(SearchRow.id == search_id)
    )
    return zlib.decompress(session.scalars(statement).one()).decode()


def search_space(session: Session, search_id: int) -> dict[str, Any] | None:
    """The search's own design space; None for stock's."""
    space: dict[str, Any] | None = session.scalars(
        select(SearchRow.space).where(SearchRow.id == search_id)
    ).one()
    return space


def search_policy(session: Session, search_id: int) -> dict[str, Any]:
    """How the search's trials are built and timed."""
    policy: dict[str, Any] = session.scalars(select(SearchRow.policy).where(SearchRow.id == search_id)).one()
    return policy


def _ok(search_id: int) -> Select[int]:
    return select(TrialRow.id).where(
        TrialRow.search_id == search_id,
        TrialRow.purpose == Purpose.SEARCH,
        TrialRow.outcome == Outcome.OK,
        TrialRow.latency_secs > 0,
    )
