"""Carries out what publish.py and ending.py decide: confirmations, records, ends of tasks and jobs.

Each function is one transaction, fenced by the search's lease; it decides again on the rows it has locked.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import structlog
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from db import progress, publishing, rounds, searches, trials
from db.progress import OpenTask
from db.publishing import Contender
from db.searches import Lease, Search
from db.session import reading, transaction
from db.states import Purpose, TaskState
from db.trials import NewTrial
from services.signing import Signer
from services.tuning import signatures
from services.tuning.ending import TaskEnd, end_of, is_spent
from services.tuning.errors import LeaseLostError
from services.tuning.publish import Decision, Evidence, decide
from services.tuning.settings import TunerSettings

_log = structlog.get_logger(__name__)
#: Contenders looked at: enough to find the best distinct programs among many equal ones.
_CONTENDERS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Settling:
    """What is to be settled in one search."""

    lease: Lease
    search: Search
    #: Tasks that run; the first one has confirmations in its name.
    tasks: Sequence[OpenTask]
    #: Those of them that wait for their end, and whether because the space is exhausted.
    ending: Collection[int]
    exhausted: bool
    #: By task: why it ends before its budget is spent.
    stopped: Mapping[int, str]


def look_first(engine: Engine, settling: Settling, settings: TunerSettings) -> Decision:
    """The decision as the rows stand, without any lock."""
    with reading(engine) as session:
        return _decide(session, settling, settings)


def settle(
    engine: Engine, settling: Settling, settings: TunerSettings, *, signer: Signer | None = None
) -> None:
    """Publish what won, ask for confirmations, or end the tasks that wait for nothing any more."""
    with transaction(engine) as session:
        if not searches.fence(session, settling.lease):
            raise LeaseLostError(settling.lease.search_id)
        publishing.lock_workload(session, settling.search.workload_id)
        progress.lock_jobs(session, {task.job_id for task in settling.tasks})
        decision = _decide(session, settling, settings)
        while decision.publish is not None:
            record_id = publishing.publish(
                session, settling.search, confirm_trial_id=decision.publish.trial_id
            )
            if signer is not None:
                signatures.sign_published(session, record_id, signer)
            _log.info("record_published", search_id=settling.search.id, record_id=record_id)
            decision = _decide(session, settling, settings)
        if decision.confirm:
            _confirm(session, settling, decision.confirm)
        if decision.settled:
            _end_tasks(session, settling)


def fail(engine: Engine, lease: Lease, tasks: Sequence[OpenTask], *, error: str) -> None:
    """The search cannot go on: it fails, and its running tasks with it."""
    with transaction(engine) as session:
        if not searches.fence(session, lease):
            raise LeaseLostError(lease.search_id)
        searches.fail_search(session, lease, error=error)
        progress.lock_jobs(session, {task.job_id for task in tasks})
        for task in tasks:
            end = TaskEnd(state=TaskState.FAILED, error=f"search {lease.search_id}: {error}")
            trials.cancel_task_trials(session, task.id)
            _end(session, task, end)
    _log.warning("search_failed", search_id=lease.search_id, reason=error)


def _decide(session: Session, settling: Settling, settings: TunerSettings) -> Decision:
    evidence = Evidence(
        incumbent=publishing.incumbent(session, settling.search),
        contenders=publishing.contenders(session, settling.search.id, limit=_CONTENDERS),
        confirmations=publishing.confirmations(session, settling.search.id),
    )
    return decide(evidence, settings, ending=bool(settling.ending), round_=settling.search.rounds)


def _confirm(session: Session, settling: Settling, contenders: Sequence[Contender]) -> None:
    """Queue confirm trials against the current record, in the name of a task that still runs.

    Of a job that is locked: another may be cancelled meanwhile, and the trial would stay open for ever.
    """
    locked = {task.job_id for task in settling.tasks}
    tasks = progress.open_tasks(session, [settling.search.id])
    now = {task.id: task for task in tasks if task.runs and task.job_id in locked}
    wanting = [task_id for task_id in settling.ending if task_id in now] or sorted(now)
    if not wanting:
        return
    task = now[wanting[0]]
    incumbent = publishing.incumbent(session, settling.search)
    for contender in contenders:
        trial = NewTrial(
            job_id=task.job_id,
            task_id=task.id,
            purpose=Purpose.CONFIRM,
            round=settling.search.rounds,
            trace_hash=contender.trace_hash,
            trace_z=publishing.contender_trace(session, contender.trial_id),
            program_hash=contender.program_hash,
            incumbent_record_id=None if incumbent is None else incumbent.record_id,
        )
        if not trials.ask_again(session, settling.search.id, trial):
            trials.insert_trials(session, settling.search.id, [trial])


def _end_tasks(session: Session, settling: Settling) -> None:
    now = {task.id: task for task in progress.open_tasks(session, [settling.search.id])}
    incumbent = publishing.incumbent(session, settling.search)
    measured = publishing.contenders(session, settling.search.id, limit=2)
    any_ok = any(not contender.baseline for contender in measured)
    for task_id in settling.ending:
        task = now.get(task_id)
        # A budget may have been raised, or the job paused, since the tick looked.
        if task is None or not task.runs:
            continue
        stopped = settling.stopped.get(task_id)
        if not (settling.exhausted or is_spent(task) or stopped):
            continue
        end = end_of(
            task,
            record_id=None if incumbent is None else incumbent.record_id,
            exhausted=settling.exhausted,
            stopped=stopped,
            any_ok=any_ok,
            first_error=None if any_ok else rounds.first_error(session, settling.search.id),
        )
        _end(session, task, end)


def _end(session: Session, task: OpenTask, end: TaskEnd) -> None:
    ended = progress.end_task(
        session,
        task.id,
        state=end.state,
        record_id=end.record_id,
        exhausted=end.exhausted,
        stopped=end.stopped,
        error=end.error,
    )
    if not ended:
        return
    job_state = progress.end_job_if_done(session, task.job_id)
    if job_state is None:
        progress.raise_revisions(session, [task.job_id])
    _log.info(
        "task_ended",
        task_id=task.id,
        job_id=task.job_id,
        state=end.state,
        stopped=end.stopped,
        job_state=job_state,
    )
