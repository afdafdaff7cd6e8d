"""Turns candidates into trials: the budget is charged in the transaction that inserts them.

What is known is skipped and costs nothing. Each function is one transaction, fenced by the search's lease.
"""

import hashlib
import zlib
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from db import progress, rounds, searches, trials
from db.progress import OpenTask
from db.searches import Lease
from db.session import transaction
from db.states import Purpose, SearchState
from db.trials import NewTrial
from services.tuning.errors import BudgetMovedError, LeaseLostError
from services.tuning.rounds import share
from services.tuning.search_host import Suggested
from tuner.search.strategy import Candidate

#: The untuned module: no instruction, no decision.
EMPTY_TRACE = "[[],[]]"
EMPTY_TRACE_HASH = hashlib.sha256(EMPTY_TRACE.encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What became of a round's candidates."""

    inserted: int
    #: Candidates that no budget could pay: the child knows them, the rows do not, so it is opened anew.
    unpaid: int
    jobs: frozenset[str]


def add_baseline(engine: Engine, lease: Lease, task: OpenTask) -> None:
    """Queue the untuned module, uncharged, or ask for it again where a cancelled job took it along."""
    baseline = NewTrial(
        job_id=task.job_id,
        task_id=task.id,
        purpose=Purpose.BASELINE,
        round=0,
        trace_hash=EMPTY_TRACE_HASH,
        trace_z=zlib.compress(EMPTY_TRACE.encode()),
    )
    with transaction(engine) as session:
        _fence(session, lease)
        progress.lock_jobs(session, [task.job_id])
        if _still_runs(session, task) and not trials.ask_again(session, lease.search_id, baseline):
            trials.insert_trials(session, lease.search_id, [baseline])


def add_round(engine: Engine, lease: Lease, suggested: Suggested, *, empty_rounds: int) -> Planned:
    """Insert a round's new candidates and charge the tasks that they were asked for."""
    with transaction(engine) as session:
        _fence(session, lease)
        tasks = _lock_payers(session, lease, suggested.payers)
        search = searches.read_searches(session, [lease.search_id])[lease.search_id]
        if search.rounds != suggested.round or search.state is not SearchState.ACTIVE:
            return Planned(inserted=0, unpaid=len(suggested.candidates), jobs=frozenset())
        new = _unknown(session, lease.search_id, suggested.candidates)
        paid = share(tasks, len(new))
        unpaid = len(new) - len(paid)
        if new and not paid:
            return Planned(inserted=0, unpaid=unpaid, jobs=frozenset())
        _charge(session, paid)
        trials.insert_trials(
            session,
            lease.search_id,
            [_trial(candidate, task, suggested) for candidate, task in zip(new, paid, strict=False)],
        )
        empty = not new and _empty_rounds(session, lease.search_id, suggested.round) >= empty_rounds
        exhausted = not unpaid and (suggested.exhausted or empty)
        if not searches.finish_round(session, lease, round_=suggested.round, exhausted=exhausted):
            raise LeaseLostError(lease.search_id)
        searches.add_stage_secs(session, {lease.search_id: {"search": suggested.search_secs}})
        return Planned(inserted=len(paid), unpaid=unpaid, jobs=frozenset(task.job_id for task in tasks))


def take_over_cancelled(engine: Engine, lease: Lease, *, payers: Collection[int], limit: int) -> int:
    """A round made of candidates that were cancelled with the job that had asked for them."""
    with transaction(engine) as session:
        _fence(session, lease)
        cancelled = trials.cancelled_ids(session, lease.search_id, limit=limit)
        tasks = _lock_payers(session, lease, payers, others={job_id for _, job_id, _ in cancelled})
        search = searches.read_searches(session, [lease.search_id])[lease.search_id]
        paid = share(tasks, len(cancelled))
        _charge(session, paid)
        round_ = search.rounds
        if paid and not searches.finish_round(session, lease, round_=round_, exhausted=False):
            round_ = max(0, search.rounds - 1)
        for (trial_id, job_id, task_id), task in zip(cancelled, paid, strict=False):
            progress.refund(session, job_id=job_id, task_id=task_id, count=1)
            trials.take_over(session, trial_id, job_id=task.job_id, task_id=task.id, round_=round_)
        return len(paid)


def _fence(session: Session, lease: Lease) -> None:
    """Lock the search: before jobs and trials, the order of all who write."""
    if not searches.fence(session, lease):
        raise LeaseLostError(lease.search_id)


def _lock_payers(
    session: Session, lease: Lease, payers: Collection[int], *, others: Collection[str] = ()
) -> list[OpenTask]:
    """The paying tasks as they stand once their jobs, and `others` that get a refund, are locked."""
    open_jobs = {task.job_id for task in progress.open_tasks(session, [lease.search_id])}
    progress.lock_jobs(session, open_jobs.union(others))
    tasks = progress.open_tasks(session, [lease.search_id])
    return [task for task in tasks if task.id in payers and task.runs]


def _still_runs(session: Session, task: OpenTask) -> bool:
    return any(now.id == task.id and now.runs for now in progress.open_tasks_of_jobs(session, [task.job_id]))


def _unknown(session: Session, search_id: int, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Candidates whose trace and program no search trial has, each once."""
    traces, programs = rounds.known_hashes(
        session,
        search_id,
        trace_hashes=[candidate.trace_hash for candidate in candidates],
        program_hashes=[candidate.program_hash for candidate in candidates],
    )
    new: list[Candidate] = []
    for candidate in candidates:
        if candidate.trace_hash not in traces and candidate.program_hash not in programs:
            traces.add(candidate.trace_hash)
            programs.add(candidate.program_hash)
            new.append(candidate)
    return new


def _charge(session: Session, paid: Sequence[OpenTask]) -> None:
    by_id = {task.id: task for task in paid}
    for task_id, count in Counter(task.id for task in paid).items():
        if not progress.charge(session, by_id[task_id], count):
            raise BudgetMovedError(f"task {task_id} cannot be charged {count} trials any more")


def _empty_rounds(session: Session, search_id: int, round_: int) -> int:
    return round_ - rounds.last_round_with_trials(session, search_id)


def _trial(candidate: Candidate, task: OpenTask, suggested: Suggested) -> NewTrial:
    return NewTrial(
        job_id=task.job_id,
        task_id=task.id,
        purpose=Purpose.SEARCH,
        round=suggested.round,
        learnt_round=suggested.learnt_round,
        trace_hash=candidate.trace_hash,
        trace_z=zlib.compress(candidate.trace.encode()),
        program_hash=candidate.program_hash,
        features_z=candidate.features,
        predicted_score=candidate.predicted_score,
    )
