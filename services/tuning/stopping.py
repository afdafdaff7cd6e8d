"""Which of the open tasks stop early: the rows that stop_rule.py decides on, read when they have changed."""

from collections.abc import Mapping, Sequence

from sqlalchemy import Engine

from db.progress import OpenTask
from db.rounds import RoundResult, round_results
from db.searches import Search
from db.session import reading
from db.workers import Worker, list_workers
from services.roofline import Bound, bound
from services.tuning.rounds import whole_round
from services.tuning.snapshot import Snapshot
from services.tuning.stop_rule import StopRule, stop_rule, why_stop

#: The peak is measured with it; another may have a higher one.
_PEAK_DTYPE = "float32"


class Stopping:
    """Remembers what it found of a task until its search has another whole round."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: dict[int, tuple[object, str | None]] = {}

    def look(self, snapshot: Snapshot) -> dict[int, str]:
        """By task: why it stops. Most jobs ask for none of this, and cost nothing."""
        rules = {task.id: stop_rule(task.options) for task in snapshot.tasks if task.runs}
        asking = [task for task in snapshot.tasks if task.id in rules and rules[task.id].is_set]
        self._known = {task.id: self._known[task.id] for task in asking if task.id in self._known}
        changed = [task for task in asking if self._known.get(task.id, (None,))[0] != _state(snapshot, task)]
        if changed:
            self._judge(snapshot, changed, rules)
        return {task_id: reason for task_id, (_, reason) in self._known.items() if reason is not None}

    def _judge(self, snapshot: Snapshot, tasks: Sequence[OpenTask], rules: Mapping[int, StopRule]) -> None:
        with reading(self._engine) as session:
            results = round_results(session, {task.search_id for task in tasks})
            by_peak = any(rules[task.id].peak_share is not None for task in tasks)
            workers = list_workers(session) if by_peak else []
        for task in tasks:
            search = snapshot.searches[task.search_id]
            least = _least(search, workers)
            reason = why_stop(
                rules[task.id],
                _whole(results.get(search.id, {}), whole_round(search, snapshot.open_trials)),
                own_trials=task.trials_reserved,
                least_secs=None if least is None else least.secs,
                least_says="" if least is None else least.says,
            )
            self._known[task.id] = (_state(snapshot, task), reason)


def _state(snapshot: Snapshot, task: OpenTask) -> object:
    search = snapshot.searches[task.search_id]
    return whole_round(search, snapshot.open_trials), search.rounds, task.trials_reserved


def _whole(results: Mapping[int, RoundResult], newest: int) -> dict[int, RoundResult]:
    return {number: result for number, result in results.items() if number <= newest}


def _least(search: Search, workers: Sequence[Worker]) -> Bound | None:
    if any(arg["dtype"] != _PEAK_DTYPE for arg in search.args):
        return None
    return bound(workers, target_key=search.target_key, flops=search.flops, args=search.args)
