"""One look at the rows that a tick decides on. It holds no session and changes nothing."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from db import attempts, fleet, progress, rounds, searches
from db.fleet import FleetWorker
from db.progress import OpenTask
from db.rounds import Closed, OpenTrials
from db.searches import Search
from db.session import reading
from db.states import Purpose


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Searches that this replica leases, and the siblings of their tasks in other searches."""

    searches: Mapping[int, Search]
    tasks: Sequence[OpenTask]
    open_trials: Sequence[OpenTrials]
    #: By search: cancelled search trials that a task may ask for again.
    cancelled: Mapping[int, int]
    baselines: Mapping[int, Closed]
    #: By target: dispatched trials.
    outstanding: Mapping[int, int]
    workers: Sequence[FleetWorker]

    def tasks_of(self, search_id: int) -> list[OpenTask]:
        return [task for task in self.tasks if task.search_id == search_id]

    def open_of(self, search_id: int, purpose: Purpose | None = None) -> list[OpenTrials]:
        return [
            trials
            for trials in self.open_trials
            if trials.search_id == search_id and purpose in (None, trials.purpose)
        ]

    def devices(self, target_id: int) -> int:
        """Live devices of a target that take new chunks."""
        return sum(worker.accepts and worker.target_id == target_id for worker in self.workers)


def look(engine: Engine, search_ids: Collection[int], *, dead_after_secs: float) -> Snapshot:
    with reading(engine) as session:
        return _read(session, search_ids, dead_after_secs=dead_after_secs)


def _read(session: Session, search_ids: Collection[int], *, dead_after_secs: float) -> Snapshot:
    jobs = {task.job_id for task in progress.open_tasks(session, search_ids)}
    tasks = progress.open_tasks_of_jobs(session, jobs)
    ids = set(search_ids) | {task.search_id for task in tasks}
    return Snapshot(
        searches=searches.read_searches(session, ids),
        tasks=tasks,
        open_trials=rounds.open_trials(session, ids),
        cancelled=rounds.cancelled_trials(session, ids),
        baselines=rounds.baselines(session, ids),
        outstanding=attempts.outstanding(session),
        workers=fleet.read_fleet(session, dead_after_secs=dead_after_secs),
    )
