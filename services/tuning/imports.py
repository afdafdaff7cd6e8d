"""Imported records are measured again by a search of their own: its candidates are their traces, as they are.

All that follows is any search's: the untuned module first, outputs compared with the reference, confirmation
against the incumbent, publication. Nothing that an import claims about itself is believed.
"""

from collections import Counter
from collections.abc import Collection

import structlog
from sqlalchemy import Engine

from db import imports, progress, rounds, searches, trials
from db.imports import ImportedTrace
from db.progress import OpenTask
from db.searches import Lease
from db.session import transaction
from db.states import Purpose, SearchState
from db.trials import NewTrial
from services.tuning.errors import BudgetMovedError, LeaseLostError
from services.tuning.rounds import share

_log = structlog.get_logger(__name__)


def add_imports(engine: Engine, lease: Lease, *, payers: Collection[int]) -> int:
    """One round with every trace of the search that is not a trial yet; how many there were.

    The search is exhausted with it, unless the budget did not suffice.
    """
    with transaction(engine) as session:
        if not searches.fence(session, lease):
            raise LeaseLostError(lease.search_id)
        progress.lock_jobs(session, {task.job_id for task in progress.open_tasks(session, [lease.search_id])})
        tasks = [
            task
            for task in progress.open_tasks(session, [lease.search_id])
            if task.id in payers and task.runs
        ]
        search = searches.read_searches(session, [lease.search_id])[lease.search_id]
        if search.state is not SearchState.ACTIVE:
            return 0
        found = imports.traces_to_verify(session, lease.search_id)
        known, _ = rounds.known_hashes(
            session, lease.search_id, trace_hashes=[each.trace_hash for each in found], program_hashes=[]
        )
        new = [each for each in found if each.trace_hash not in known]
        paid = share(tasks, len(new))
        if new and not paid:
            return 0
        by_id = {task.id: task for task in paid}
        for task_id, count in Counter(task.id for task in paid).items():
            if not progress.charge(session, by_id[task_id], count):
                raise BudgetMovedError(f"task {task_id} cannot be charged {count} trials any more")
        pairs = list(zip(new, paid, strict=False))
        rows = [_trial(each, task, search.rounds) for each, task in pairs]
        trials.insert_trials(session, lease.search_id, rows)
        exhausted = len(paid) == len(new)
        if not searches.finish_round(session, lease, round_=search.rounds, exhausted=exhausted):
            raise LeaseLostError(lease.search_id)
    _log.info("imports_queued", search_id=lease.search_id, trials=len(paid))
    return len(paid)


def _trial(found: ImportedTrace, task: OpenTask, round_: int) -> NewTrial:
    return NewTrial(
        job_id=task.job_id,
        task_id=task.id,
        purpose=Purpose.SEARCH,
        round=round_,
        trace_hash=found.trace_hash,
        trace_z=found.trace_z,
    )
