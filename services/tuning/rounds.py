"""Rounds: when a search asks for candidates, how many, and who pays. Pure functions of rows.

Round r is asked for when no search trial of the rounds up to r - 2 is open: so it sees exactly their results,
and the devices measure round r - 1 meanwhile. Where many devices share a search that is not enough: they
would wait for the slowest trial of a round. While they are about to run dry (hunger.py) a round may be asked
for earlier; it then sees the newest whole round there is, and its trials say which (docs/adr/0008).
"""

from collections import Counter
from collections.abc import Sequence

from db.progress import OpenTask
from db.rounds import OpenTrials
from db.searches import Search
from db.states import JobState, Purpose, SearchState, TrialState
from services.tuning.settings import TunerSettings
from services.tuning.snapshot import Snapshot

#: Round r sees the results of the rounds up to r - 2 at most: the first two see none.
LAG = 2


def batch_size(search: Search, settings: TunerSettings) -> int:
    """Candidates of the next round: fewer in the first, which learn most from each other.

    Half of those again where there is no result yet to choose by.
    """
    full = int(search.options.get("batch_size") or settings.batch_size)
    first = min(full, int(search.options.get("first_batch_size") or settings.first_batch_size))
    if search.rounds < min(LAG, settings.first_rounds):
        return max(1, first // 2)
    return first if search.rounds < settings.first_rounds else full


def learnt_round(search: Search, open_trials: Sequence[OpenTrials]) -> int:
    """The newest round whose results the next round may see; negative where there is none yet."""
    return min(search.rounds - LAG, whole_round(search, open_trials))


def whole_round(search: Search, open_trials: Sequence[OpenTrials]) -> int:
    """The newest round that is whole, with all rounds before it; negative where there is none yet."""
    held_up = [
        trials.round
        for trials in open_trials
        if trials.search_id == search.id and trials.purpose is Purpose.SEARCH and _holds_up(trials)
    ]
    return min([search.rounds - 1, *(round_ - 1 for round_ in held_up)])


def round_is_due(search: Search, open_trials: Sequence[OpenTrials], *, max_lag: int = LAG) -> bool:
    """Whether the results of all rounds but the newest `max_lag` - 1 are there."""
    return search.rounds - learnt_round(search, open_trials) <= max(LAG, max_lag)


def wants_candidates(snapshot: Snapshot, search: Search, *, max_lag: int = LAG) -> bool:
    """Whether a round is due and there is still something to ask."""
    exhausted = search.state is not SearchState.ACTIVE and not snapshot.cancelled.get(search.id)
    return (
        search.state is not SearchState.FAILED
        and not exhausted
        and round_is_due(search, snapshot.open_trials, max_lag=max_lag)
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
