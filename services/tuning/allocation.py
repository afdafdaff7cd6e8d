"""Which tasks may pay for a search's next round: of a job's several tasks the most promising one.

The rule itself is tuner/budget.py; here the rows become its arguments. A job of several tasks keeps about two
batches for each device under way, so that the choice is made late, on many results. The search it falls on
may be another replica's, whose child hangs: what stays chosen for as long as a lease is passed over.
"""

import time
from collections.abc import Callable, Mapping, Sequence

from sqlalchemy import Engine

from db import rounds as db_rounds
from db.progress import OpenTask
from db.rounds import RoundResult
from db.searches import Search
from db.session import reading
from db.states import Purpose
from services.tuning.hunger import Hunger
from services.tuning.rounds import batch_size, wants_candidates, warm_up_limit
from services.tuning.settings import TunerSettings
from services.tuning.snapshot import Snapshot
from tuner.budget import TaskProgress, next_task

_BATCHES_PER_DEVICE = 2

#: By task that was chosen: its rounds, and since when it stands so, in time.monotonic().
Standing = dict[int, tuple[int, float]]


class Allocation:
    """The choice of one tick: each job chooses once, when it is first asked."""

    def __init__(
        self,
        *,
        engine: Engine,
        snapshot: Snapshot,
        busy: Callable[[int], bool],
        hunger: Hunger,
        settings: TunerSettings,
        stood: Mapping[int, tuple[int, float]],
    ) -> None:
        """`stood`: the `standing` of the tick before."""
        self._engine = engine
        self._snapshot = snapshot
        self._busy = busy
        self._hunger = hunger
        self._settings = settings
        self._chosen: dict[str, int | None] = {}
        self._stood = stood
        self.standing: Standing = {}

    def wants(self, search: Search) -> bool:
        """Whether a search is to be asked for a round now."""
        return wants_candidates(self._snapshot, search, max_lag=self._hunger.max_lag(search))

    def asked(self, search: Search, candidates: int) -> None:
        """They are on their way."""
        self._hunger.count(search, candidates)

    def payers(self, search: Search) -> list[OpenTask]:
        """Tasks of the search that may pay for its next round."""
        return [
            task
            for task in self._snapshot.tasks_of(search.id)
            if task.runs and task.id not in self._snapshot.stopped and self._may_pay(task)
        ]

    def batch_limit(self, search: Search, payers: Sequence[OpenTask]) -> int:
        """Candidates that the search may be asked for, however many its payers could charge."""
        limits = [
            warm_up_limit([other for other in self._snapshot.tasks if other.job_id == job_id], search.id)
            for job_id in {task.job_id for task in payers}
        ]
        full = batch_size(search, self._settings)
        return max((full if limit is None else min(limit, full) for limit in limits), default=full)

    def _may_pay(self, task: OpenTask) -> bool:
        siblings = [other for other in self._snapshot.tasks if other.job_id == task.job_id]
        if len({other.search_id for other in siblings}) == 1:
            return True
        if task.job_id not in self._chosen:
            self._chosen[task.job_id] = self._choose(siblings)
        chosen = self._chosen[task.job_id]
        return any(other.id == chosen and other.search_id == task.search_id for other in siblings)

    def _choose(self, tasks: Sequence[OpenTask]) -> int | None:
        if self._under_way(tasks) >= self._wanted(tasks[0]):
            return None
        with reading(self._engine) as session:
            results = db_rounds.round_results(session, {task.search_id for task in tasks})
        left = {task.id: self._progress(task, results) for task in tasks}
        while (chosen := next_task(list(left.values()))) is not None:
            if self._stands_secs(left.pop(chosen)) <= self._settings.lease_secs:
                return chosen
        return None

    def _stands_secs(self, chosen: TaskProgress) -> float:
        """For so long it has been chosen without a round more."""
        now = time.monotonic()
        rounds, since = self._stood.get(chosen.task_id, (chosen.rounds, now))
        self.standing[chosen.task_id] = (chosen.rounds, since if rounds == chosen.rounds else now)
        return now - self.standing[chosen.task_id][1]

    def _under_way(self, tasks: Sequence[OpenTask]) -> int:
        searches = {task.search_id for task in tasks}
        open_count = sum(
            kind.count for search_id in searches for kind in self._snapshot.open_of(search_id, Purpose.SEARCH)
        )
        asked = [self._snapshot.searches[search_id] for search_id in searches if self._busy(search_id)]
        return open_count + sum(batch_size(search, self._settings) for search in asked)

    def _wanted(self, task: OpenTask) -> int:
        search = self._snapshot.searches[task.search_id]
        devices = max(1, self._snapshot.devices(search.target_id))
        return _BATCHES_PER_DEVICE * devices * batch_size(search, self._settings)

    def _progress(self, task: OpenTask, results: Mapping[int, Mapping[int, RoundResult]]) -> TaskProgress:
        search = self._snapshot.searches[task.search_id]
        out = {kind.round for kind in self._snapshot.open_of(search.id, Purpose.SEARCH)}
        busy = self._busy(search.id)
        return TaskProgress(
            task_id=task.id,
            weight=task.weight,
            flops=search.flops,
            latencies=best_so_far(results.get(search.id, {}), out),
            rounds_out=len(out) + busy,
            trials=task.trials_reserved,
            max_trials=task.max_trials_per_task,
            done=busy or task.id in self._snapshot.stopped or not self.wants(search),
        )


def best_so_far(by_round: Mapping[int, RoundResult], out: set[int]) -> tuple[float | None, ...]:
    """Best latency after each finished round, from the best of each."""
    best: float | None = None
    course: list[float | None] = []
    for round_ in sorted(set(by_round) - out):
        latency = by_round[round_].latency_secs
        if latency is not None and (best is None or latency < best):
            best = latency
        course.append(best)
    return tuple(course)
