"""Rounds: when a search asks for candidates, how many, and who pays. Pure functions of rows.

Round r is asked for when no search trial of the rounds up to r - 2 is open: so it sees exactly their results,
and the devices measure round r - 1 meanwhile. At most two rounds are open.
"""

from collections import Counter
from collections.abc import Sequence

from db.progress import OpenTask
from db.rounds import OpenTrials
from db.searches import Search
from db.states import JobState, Purpose, SearchState, TrialState
from services.tuning.settings import TunerSettings
from services.tuning.snapshot import Snapshot

#: Round r sees the results of the rounds up to r - 2: these see none.
_BLIND_ROUNDS = 2


def batch_size(search: Search, settings: TunerSettings) -> int:
    """Candidates of the next round: the first two, which know no results yet, may be smaller."""
    full = int(search.options.get("batch_size") or settings.batch_size)
    first = int(search.options.get("first_batch_size") or settings.first_batch_size)
    return min(first, full) if search.rounds < _BLIND_ROUNDS else full


def round_is_due(search: Search, open_trials: Sequence[OpenTrials]) -> bool:
    """Whether all results that the next round may see are there."""
    return not any(
        trials.round <= search.rounds - 2 and _holds_up(trials)
        for trials in open_trials
        if trials.search_id == search.id and trials.purpose is Purpose.SEARCH
    )


def wants_candidates(snapshot: Snapshot, search: Search) -> bool:
    """Whether a round is due and there is still something to ask."""
    exhausted = search.state is not SearchState.ACTIVE and not snapshot.cancelled.get(search.id)
    return (
        search.state is not SearchState.FAILED
        and not exhausted
        and round_is_due(search, snapshot.open_trials)
    )


def share(tasks: Sequence[OpenTask], count: int) -> list[OpenTask]:
    """Who pays for each of `count` candidates: urgent jobs first, then who was charged least.

    Shorter than `count` where the budgets do not suffice.
    """
    charged: Counter[int] = Counter()
    job_charged: Counter[str] = Counter()
    payers: list[OpenTask] = []
    for _ in range(count):
        able = [
            task
            for task in tasks
            if task.runs and _left(task, charged[task.id], job_charged[task.job_id]) > 0
        ]
        if not able:
            break
        payer = min(able, key=lambda task: (-task.priority, task.trials_reserved + charged[task.id], task.id))
        charged[payer.id] += 1
        job_charged[payer.job_id] += 1
        payers.append(payer)
    return payers


def warm_up_limit(job_tasks: Sequence[OpenTask], search_id: int) -> int | None:
    """The largest batch of a search that leaves each task of the job which had no trial yet its share.

    None where every task had one: a small budget must not be spent before each task has a record.
    """
    waiting = {task.search_id for task in job_tasks if task.runs and task.trials_reserved == 0}
    if not waiting:
        return None
    left = job_tasks[0].max_trials - job_tasks[0].job_trials_reserved
    return max(1, left // len(waiting | {search_id}))


def _left(task: OpenTask, charged: int, job_charged: int) -> int:
    left = task.max_trials - task.job_trials_reserved - job_charged
    if task.max_trials_per_task is not None:
        left = min(left, task.max_trials_per_task - task.trials_reserved - charged)
    return left


def _holds_up(trials: OpenTrials) -> bool:
    """A trial of a paused job holds up nobody else; it joins a later round when that job resumes."""
    return trials.state is TrialState.DISPATCHED or trials.job_state is JobState.RUNNING
