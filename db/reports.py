"""What workers report of attempts: judged on the locked rows, written in one statement for each kind.

A report counts only for (trial, attempt, dispatched): a late, doubled or reordered one changes nothing. Locks
are taken in the order search, trial, each by id.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, cast

from sqlalchemy import BindParameter, Table, bindparam, select, update
from sqlalchemy.orm import Session

from db.clock import utc_now
from db.rowcount import changed
from db.states import Outcome, Purpose, TrialState
from db.tables import JobRow, SearchRow, TrialRow

_TRIALS = cast("Table", TrialRow.__table__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """An outcome, ready for its row."""

    trial_id: int
    attempt: int
    worker_id: str
    outcome: Outcome
    run_secs: Sequence[float] | None
    latency_secs: float | None
    incumbent_run_secs: Sequence[float] | None
    error: str | None
    stage_secs: Mapping[str, float]
    device_class: str
    tvm_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialPlace:
    """Where a trial belongs."""

    id: int
    search_id: int
    job_id: str
    purpose: Purpose
    target_id: int
    owner: str
    #: Of its search, as it was when this was read: it only ever falls.
    best_latency_secs: float | None
    task_id: int
    #: Of a trial that is built and not yet measured.
    stage_secs: Mapping[str, float]
    #: The attempt that is under way; None where none is.
    attempt: int | None
    #: The worker that reported it started.
    worker_id: str | None


class Reports:
    """Of one transaction. What it accepted is written by `write`, at the latest at its end."""

    def __init__(self, session: Session, places: Mapping[int, TrialPlace]) -> None:
        self.places = places
        self._session = session
        #: By trial under way: its attempt, and whether it was started.
        self._under_way = {
            place.id: (place.attempt, place.worker_id is not None)
            for place in places.values()
            if place.attempt is not None
        }
        #: By trial: the worker that started it.
        self._started: dict[int, str] = {}
        self._measured: dict[int, Measured] = {}

    @classmethod
    def open(cls, session: Session, trial_ids: Collection[int]) -> Self:
        """Locks the trials, and their searches before them."""
        ids = sorted(trial_ids)
        session.execute(_SEARCHES, {"trial_ids": ids}).all()
        rows = session.execute(_PLACES, {"trial_ids": ids})
        return cls(session, {row.id: _place(row) for row in rows})

    def started(self, trial_id: int, *, attempt: int, worker_id: str) -> bool:
        """A worker began this attempt; a doubled notice counts once."""
        if self._under_way.get(trial_id) != (attempt, False):
            return False
        self._under_way[trial_id] = (attempt, True)
        self._started[trial_id] = worker_id
        return True

    def measured(self, measured: Measured) -> bool:
        """It has its outcome; False for a late or doubled one."""
        attempt, _ = self._under_way.get(measured.trial_id, (None, False))
        if attempt != measured.attempt:
            return False
        del self._under_way[measured.trial_id]
        self._measured[measured.trial_id] = measured
        return True

    def forget(self, trial_id: int) -> None:
        """The attempt has ended otherwise, by a statement of the caller's, after `write`."""
        self._under_way.pop(trial_id, None)

    def write(self) -> None:
        """What was accepted since the last time."""
        outcomes = [_outcome(row, started=row.trial_id in self._started) for row in self._measured.values()]
        starts = [
            {"trial": trial_id, "by": worker_id}
            for trial_id, worker_id in sorted(self._started.items())
            if trial_id not in self._measured
        ]
        for statement, rows in ((_START, starts), (_CLOSE, outcomes)):
            if rows:
                self._session.execute(statement, rows)
        for measured in self._measured.values():
            if measured.outcome is Outcome.OK and measured.latency_secs is not None:
                _note_latency(self._session, self.places[measured.trial_id], measured.latency_secs)
        self._started, self._measured = {}, {}


def _note_latency(session: Session, place: TrialPlace, latency_secs: float) -> None:
    """An OK trial's latency: the search's untuned one, or, where it is an improvement, its best."""
    search = update(SearchRow).where(SearchRow.id == place.search_id)
    if place.purpose is Purpose.BASELINE:
        changed(session, search.values(untuned_latency_secs=latency_secs))
    elif place.purpose is Purpose.SEARCH and _may_improve(place, latency_secs):
        worse = SearchRow.best_latency_secs.is_(None) | (SearchRow.best_latency_secs > latency_secs)
        best = search.where(worse).values(best_latency_secs=latency_secs, best_trial_id=place.id)
        if changed(session, best):
            changed(session, update(TrialRow).where(TrialRow.id == place.id).values(improved=True))


def _may_improve(place: TrialPlace, latency_secs: float) -> bool:
    """Most do not, and need no statement; of those that may, the row decides."""
    return place.best_latency_secs is None or latency_secs < place.best_latency_secs


def _place(row: Any) -> TrialPlace:
    under_way = row.state == TrialState.DISPATCHED
    return TrialPlace(
        id=row.id,
        search_id=row.search_id,
        job_id=row.job_id,
        task_id=row.task_id,
        purpose=Purpose.of(row.purpose),
        target_id=row.target_id,
        owner=row.owner,
        best_latency_secs=row.best_latency_secs,
        stage_secs=(row.stage_secs or {}) if row.is_built else {},
        attempt=row.attempt if under_way else None,
        worker_id=row.worker_id,
    )


def _outcome(measured: Measured, *, started: bool) -> dict[str, Any]:
    """Its parameters."""
    return {
        "trial": measured.trial_id,
        "starts": int(started),
        "by": measured.worker_id,
        "how": measured.outcome,
        "times": _floats(measured.run_secs),
        "latency": measured.latency_secs,
        "incumbent_times": _floats(measured.incumbent_run_secs),
        "why": measured.error,
        "stages": dict(measured.stage_secs),
        "device": measured.device_class,
        "tvm": measured.tvm_version,
    }


def _floats(secs: Sequence[float] | None) -> list[float] | None:
    return None if secs is None else list(secs)


# Made once: to put them together costs more than to run them.
_IDS: BindParameter[Any] = bindparam("trial_ids", expanding=True)
_SEARCHES = (
    select(SearchRow.id)
    .where(SearchRow.id.in_(select(TrialRow.search_id).where(TrialRow.id.in_(_IDS))))
    .order_by(SearchRow.id)
    .with_for_update(key_share=True)
)
_PLACES = (
    select(
        *(TrialRow.id, TrialRow.search_id, TrialRow.job_id, TrialRow.task_id, TrialRow.purpose),
        *(TrialRow.state, TrialRow.attempt, TrialRow.worker_id, TrialRow.stage_secs),
        TrialRow.built.is_not(None).label("is_built"),
        SearchRow.target_id,
        SearchRow.best_latency_secs,
        JobRow.owner,
    )
    .join(SearchRow, SearchRow.id == TrialRow.search_id)
    .join(JobRow, JobRow.id == TrialRow.job_id)
    .where(TrialRow.id.in_(_IDS))
    .order_by(TrialRow.id)
    .with_for_update(of=TrialRow)
)
_START = (
    update(_TRIALS)
    .where(_TRIALS.c.id == bindparam("trial"))
    .values(worker_id=bindparam("by"), started_attempts=_TRIALS.c.started_attempts + 1)
)
_CLOSE = (
    update(_TRIALS)
    .where(_TRIALS.c.id == bindparam("trial"))
    .values(
        state=TrialState.DONE,
        started_attempts=_TRIALS.c.started_attempts + bindparam("starts"),
        worker_id=bindparam("by"),
        outcome=bindparam("how"),
        run_secs=bindparam("times"),
        latency_secs=bindparam("latency"),
        incumbent_run_secs=bindparam("incumbent_times"),
        error=bindparam("why"),
        stage_secs=bindparam("stages"),
        device_class=bindparam("device"),
        tvm_version=bindparam("tvm"),
        built=None,
        done_at=utc_now(),
    )
)
