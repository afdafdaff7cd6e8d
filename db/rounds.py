"""Rounds: what of a search is open, what is closed, and what a later round may learn from. Reads only."""

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import case, func, or_, select
from sqlalchemy.orm import Session

from db.states import OPEN_TRIALS, JobState, Outcome, Purpose, TrialState
from db.tables import JobRow, TrialRow

_KNOWN = (TrialState.DONE, TrialState.FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTrials:
    """How many trials of one kind wait or are under way."""

    search_id: int
    job_id: str
    task_id: int
    job_state: JobState
    purpose: Purpose
    state: TrialState
    round: int
    #: A build worker has built them: they wait for one that measures.
    built: bool
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTrial:
    """What a search learns from: a closed search trial. Its trace comes apart."""

    id: int
    trace_hash: str
    program_hash: str
    features_z: bytes
    round: int
    outcome: Outcome
    latency_secs: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundResult:
    """What a round of a search has brought so far."""

    #: Its search trials that are closed.
    closed: int
    #: The least that was measured OK; None where nothing was.
    latency_secs: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """How a trial that was waited for ended; outcome None where it was cancelled."""

    state: TrialState
    outcome: Outcome | None
    error: str | None


def open_trials(session: Session, search_ids: Collection[int]) -> list[OpenTrials]:
    """Counts of queued and dispatched trials of some searches."""
    kinds = (
        TrialRow.search_id,
        TrialRow.job_id,
        TrialRow.task_id,
        JobRow.state,
        TrialRow.purpose,
        TrialRow.state,
        TrialRow.round,
        TrialRow.built.is_not(None),
    )
    statement = (
        select(*kinds, func.count())
        .join(JobRow, JobRow.id == TrialRow.job_id)
        .where(TrialRow.search_id.in_(search_ids), TrialRow.state.in_(OPEN_TRIALS))
        .group_by(*kinds)
    )
    return [
        OpenTrials(
            search_id=search_id,
            job_id=job_id,
            task_id=task_id,
            job_state=JobState.of(job_state),
            purpose=Purpose.of(purpose),
            state=TrialState.of(state),
            round=round_,
            built=bool(built),
            count=count,
        )
        for search_id, job_id, task_id, job_state, purpose, state, round_, built, count in session.execute(
            statement
        )
    ]


def cancelled_trials(session: Session, search_ids: Collection[int]) -> dict[int, int]:
    """By search: how many search trials were cancelled and may be asked for again."""
    statement = (
        select(TrialRow.search_id, func.count())
        .where(
            TrialRow.search_id.in_(search_ids),
            TrialRow.state == TrialState.CANCELLED,
            TrialRow.purpose == Purpose.SEARCH,
        )
        .group_by(TrialRow.search_id)
    )
    return {search_id: count for search_id, count in session.execute(statement)}  # noqa: C416 - rows, not pairs


def baselines(session: Session, search_ids: Collection[int]) -> dict[int, Closed]:
    """By search: what stands on its baseline's row."""
    statement = select(TrialRow.search_id, TrialRow.state, TrialRow.outcome, TrialRow.error).where(
        TrialRow.search_id.in_(search_ids), TrialRow.purpose == Purpose.BASELINE
    )
    return {row.search_id: _closed(row.state, row.outcome, row.error) for row in session.execute(statement)}


def first_error(session: Session, search_id: int) -> Closed | None:
    """The first search trial that failed, to tell why nothing succeeded."""
    statement = (
        select(TrialRow.state, TrialRow.outcome, TrialRow.error)
        .where(
            TrialRow.search_id == search_id,
            TrialRow.purpose == Purpose.SEARCH,
            TrialRow.state.in_(_KNOWN),
            TrialRow.outcome != Outcome.OK,
        )
        .order_by(TrialRow.id)
        .limit(1)
    )
    row = session.execute(statement).one_or_none()
    return None if row is None else _closed(row.state, row.outcome, row.error)


def last_round_with_trials(session: Session, search_id: int) -> int:
    """The newest round that brought a new trial; -1 where none did."""
    newest = session.scalar(
        select(func.max(TrialRow.round)).where(
            TrialRow.search_id == search_id, TrialRow.purpose == Purpose.SEARCH
        )
    )
    return -1 if newest is None else newest


def round_results(session: Session, search_ids: Collection[int]) -> dict[int, dict[int, RoundResult]]:
    """By search and round, as far as something of the round is closed."""
    ok_latency = case((TrialRow.outcome == Outcome.OK, TrialRow.latency_secs))
    statement = (
        select(TrialRow.search_id, TrialRow.round, func.count(), func.min(ok_latency))
        .where(
            TrialRow.search_id.in_(search_ids),
            TrialRow.purpose == Purpose.SEARCH,
            TrialRow.state.in_(_KNOWN),
        )
        .group_by(TrialRow.search_id, TrialRow.round)
    )
    results: dict[int, dict[int, RoundResult]] = {}
    for search_id, round_, closed, latency in session.execute(statement):
        results.setdefault(search_id, {})[round_] = RoundResult(closed=closed, latency_secs=latency)
    return results


def unseen_programs(session: Session, search_id: int, *, up_to_round: int) -> list[str]:
    """Programs that are trials already, but whose results a later round may not see, or never will."""
    statement = (
        select(TrialRow.program_hash)
        .where(
            TrialRow.search_id == search_id,
            TrialRow.purpose == Purpose.SEARCH,
            or_(TrialRow.state.not_in(_KNOWN), TrialRow.round > up_to_round),
        )
        .order_by(TrialRow.id)
    )
    return [program for program in session.scalars(statement) if program]


def known_trials(session: Session, search_id: int, *, up_to_round: int) -> list[KnownTrial]:
    """Closed search trials of the rounds up to one, oldest first: exactly what a later round may see."""
    statement = (
        select(
            TrialRow.id,
            TrialRow.trace_hash,
            TrialRow.program_hash,
            TrialRow.features_z,
            TrialRow.round,
            TrialRow.outcome,
            TrialRow.latency_secs,
        )
        .where(
            TrialRow.search_id == search_id,
            TrialRow.purpose == Purpose.SEARCH,
            TrialRow.state.in_(_KNOWN),
            TrialRow.round <= up_to_round,
        )
        .order_by(TrialRow.id)
    )
    return [
        KnownTrial(
            id=row.id,
            trace_hash=row.trace_hash,
            program_hash=row.program_hash or "",
            features_z=row.features_z or b"",
            round=row.round,
            outcome=Outcome.of(row.outcome),
            latency_secs=row.latency_secs,
        )
        for row in session.execute(statement)
    ]


def traces(session: Session, trial_ids: Collection[int]) -> dict[int, bytes]:
    """Zlib of the trace's JSON text, by trial, where it was kept."""
    statement = select(TrialRow.id, TrialRow.trace_z).where(
        TrialRow.id.in_(trial_ids), TrialRow.trace_z.is_not(None)
    )
    return {row.id: row.trace_z for row in session.execute(statement) if row.trace_z is not None}


def known_hashes(
    session: Session, search_id: int, *, trace_hashes: Collection[str], program_hashes: Collection[str]
) -> tuple[set[str], set[str]]:
    """Which of these traces, and of these programs, a search trial of this search already has."""
    mine = (TrialRow.search_id == search_id, TrialRow.purpose == Purpose.SEARCH)
    by_trace = select(TrialRow.trace_hash).where(*mine, TrialRow.trace_hash.in_(trace_hashes))
    by_program = select(TrialRow.program_hash).where(*mine, TrialRow.program_hash.in_(program_hashes))
    programs = {program for program in session.scalars(by_program) if program is not None}
    return set(session.scalars(by_trace)), programs


def _closed(state: str, outcome: str | None, error: str | None) -> Closed:
    return Closed(
        state=TrialState.of(state), outcome=None if outcome is None else Outcome.of(outcome), error=error
    )
