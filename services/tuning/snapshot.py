"""One look at the rows that a tick decides on. It holds no session and changes nothing."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from db import fleet, progress, rounds, searches
from db.dispatched import outstanding
from db.fleet import FleetWorker
from db.progress import OpenTask
from db.rounds import Closed, OpenTrials
from db.searches import Search
from db.session import reading
from db.states import Purpose, WorkerRole
from services.tuning.lanes import Crew, crew


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Searches that this replica leases, and the siblings of their tasks in other searches."""

    searches: Mapping[int, Search]
    tasks: Sequence[OpenTask]
    open_trials: Sequence[OpenTrials]
    #: By search: cancelled search trials that a task may ask for again.
    cancelled: Mapping[int, int]
    baselines: Mapping[int, Closed]
    #: By target: dispatched trials by role, and by owner.
    outstanding: Mapping[int, Mapping[WorkerRole, int]]
    owners_out: Mapping[int, Mapping[str, int]]
    workers: Sequence[FleetWorker]
    #: By task: why it stops before its budget is spent.
    stopped: Mapping[int, str] = field(default_factory=dict)

    @property
    def under_way(self) -> int:
        """Dispatched trials of all targets, anybody's."""
        return sum(sum(by_role.values()) for by_role in self.outstanding.values())

    def tasks_of(self, search_id: int) -> list[OpenTask]:
        return [task for task in self.tasks if task.search_id == search_id]

    def open_of(self, search_id: int, purpose: Purpose | None = None) -> list[OpenTrials]:
        return [
            trials
            for trials in self.open_trials
            if trials.search_id == search_id and purpose in (None, trials.purpose)
        ]

    def devices(self, target_id: int) -> int:
        """Live devices of a target that can be kept busy."""
        return self.crew(target_id).devices

    def crew(self, target_id: int) -> Crew:
        return crew(self.workers, target_id)


def look(engine: Engine, search_ids: Collection[int], *, dead_after_secs: float) -> Snapshot:
    with reading(engine) as session:
        return _read(session, search_ids, dead_after_secs=dead_after_secs)


def _read(session: Session, search_ids: Collection[int], *, dead_after_secs: float) -> Snapshot:
    jobs = {task.job_id for task in progress.open_tasks(session, search_ids)}
    tasks = progress.open_tasks_of_jobs(session, jobs)
    ids = set(search_ids) | {task.search_id for task in tasks}
    found = searches.read_searches(session, ids)
    by_role: dict[int, Counter[WorkerRole]] = defaultdict(Counter)
    by_owner: dict[int, Counter[str]] = defaultdict(Counter)
    for out in outstanding(session, {search.target_id for search in found.values()}):
        by_role[out.target_id][out.role] += out.count
        by_owner[out.target_id][out.owner] += out.count
    return Snapshot(
        searches=found,
        tasks=tasks,
        open_trials=rounds.open_trials(session, ids),
        cancelled=rounds.cancelled_trials(session, ids),
        baselines=rounds.baselines(session, ids),
        outstanding=by_role,
        owners_out=by_owner,
        workers=fleet.read_fleet(session, dead_after_secs=dead_after_secs),
    )
