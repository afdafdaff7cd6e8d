"""How jobs and tasks move: started, paused, cancelled, charged, ended. Times are the database's.

Only the tuner service calls this. Every change that a watcher should see raises the job's revision.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Row, Select, func, select, update
from sqlalchemy.orm import Session

from db.clock import utc_now
from db.rowcount import changed
from db.states import DesiredState, JobState, TaskState
from db.tables import JobRow, TaskRow

_OPEN_JOBS = (JobState.QUEUED, JobState.RUNNING, JobState.PAUSED)
_OPEN_TASKS = (TaskState.QUEUED, TaskState.RUNNING)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenJob:
    """A job that has not ended: what it does, and what its user wants."""

    id: str
    state: JobState
    desired_state: DesiredState
    #: Tasks that have not ended.
    open_tasks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTask:
    """A task that has not ended, with the budgets that bind it."""

    id: int
    job_id: str
    search_id: int
    ordinal: int
    weight: float
    #: Search trials charged to the task, and to its job.
    trials_reserved: int
    job_trials_reserved: int
    max_trials: int
    max_trials_per_task: int | None
    priority: int
    #: The job's.
    owner: str
    job_state: JobState
    desired_state: DesiredState
    #: The job's, as validated.
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def runs(self) -> bool:
        """It may get trials now."""
        return self.job_state is JobState.RUNNING and self.desired_state is DesiredState.RUNNING

    @property
    def budget_left(self) -> int:
        """Search trials that may still be charged; a lowered budget leaves none, never a negative number."""
        left = self.max_trials - self.job_trials_reserved
        if self.max_trials_per_task is not None:
            left = min(left, self.max_trials_per_task - self.trials_reserved)
        return max(0, left)


def open_jobs(session: Session) -> list[OpenJob]:
    tasks = (
        select(func.count())
        .where(TaskRow.job_id == JobRow.id, TaskRow.state.in_(_OPEN_TASKS))
        .scalar_subquery()
    )
    statement = (
        select(JobRow.id, JobRow.state, JobRow.desired_state, tasks.label("tasks"))
        .where(JobRow.state.in_(_OPEN_JOBS))
        .order_by(JobRow.priority.desc(), JobRow.created_at, JobRow.id)
    )
    return [
        OpenJob(
            id=row.id,
            state=JobState.of(row.state),
            desired_state=DesiredState.of(row.desired_state),
            open_tasks=row.tasks,
        )
        for row in session.execute(statement)
    ]


def open_tasks(session: Session, search_ids: Collection[int]) -> list[OpenTask]:
    """Open tasks of some searches."""
    return _read_tasks(session, _task_query().where(TaskRow.search_id.in_(search_ids)))


def open_tasks_of_jobs(session: Session, job_ids: Collection[str]) -> list[OpenTask]:
    """Open tasks of some jobs, in whatever search."""
    return _read_tasks(session, _task_query().where(TaskRow.job_id.in_(job_ids)))


def lock_jobs(session: Session, job_ids: Collection[str]) -> None:
    """Lock job rows, always in the order of their ids, before anything of theirs is decided."""
    statement = select(JobRow.id).where(JobRow.id.in_(job_ids)).order_by(JobRow.id)
    session.execute(statement.with_for_update(key_share=True)).all()


def start_job(session: Session, job_id: str) -> bool:
    """A queued or paused job runs, if its user still wants that."""
    statement = (
        update(JobRow)
        .where(
            JobRow.id == job_id,
            JobRow.state.in_((JobState.QUEUED, JobState.PAUSED)),
            JobRow.desired_state == DesiredState.RUNNING,
        )
        .values(
            state=JobState.RUNNING,
            started_at=func.coalesce(JobRow.started_at, utc_now()),
            revision=JobRow.revision + 1,
        )
    )
    if not changed(session, statement):
        return False
    tasks = update(TaskRow).where(TaskRow.job_id == job_id, TaskRow.state == TaskState.QUEUED)
    changed(session, tasks.values(state=TaskState.RUNNING))
    return True


def pause_job(session: Session, job_id: str) -> bool:
    statement = (
        update(JobRow)
        .where(
            JobRow.id == job_id,
            JobRow.state.in_((JobState.QUEUED, JobState.RUNNING)),
            JobRow.desired_state == DesiredState.PAUSED,
        )
        .values(state=JobState.PAUSED, revision=JobRow.revision + 1)
    )
    return changed(session, statement) == 1


def cancel_job(session: Session, job_id: str) -> bool:
    """The job and its open tasks end as cancelled; its trials are the caller's next step."""
    statement = (
        update(JobRow)
        .where(
            JobRow.id == job_id,
            JobRow.state.in_(_OPEN_JOBS),
            JobRow.desired_state == DesiredState.CANCELLED,
        )
        .values(state=JobState.CANCELLED, finished_at=utc_now(), revision=JobRow.revision + 1)
    )
    if not changed(session, statement):
        return False
    tasks = update(TaskRow).where(TaskRow.job_id == job_id, TaskRow.state.in_(_OPEN_TASKS))
    changed(session, tasks.values(state=TaskState.CANCELLED, finished_at=utc_now()))
    return True


def charge(session: Session, task: OpenTask, count: int) -> bool:
    """Reserve budget for `count` search trials; False, and nothing charged, where it does not suffice."""
    job = update(JobRow).where(
        JobRow.id == task.job_id,
        JobRow.state == JobState.RUNNING,
        JobRow.desired_state == DesiredState.RUNNING,
        JobRow.trials_reserved + count <= JobRow.max_trials,
    )
    if not changed(session, job.values(trials_reserved=JobRow.trials_reserved + count)):
        return False
    own = update(TaskRow).where(TaskRow.id == task.id, TaskRow.state == TaskState.RUNNING)
    if task.max_trials_per_task is not None:
        own = own.where(TaskRow.trials_reserved + count <= task.max_trials_per_task)
    if changed(session, own.values(trials_reserved=TaskRow.trials_reserved + count)):
        return True
    refund(session, job_id=task.job_id, task_id=None, count=count)
    return False


def refund(session: Session, *, job_id: str, task_id: int | None, count: int) -> None:
    """Take a charge back, as where another job takes a cancelled trial over."""
    job = update(JobRow).where(JobRow.id == job_id)
    changed(session, job.values(trials_reserved=JobRow.trials_reserved - count))
    if task_id is not None:
        task = update(TaskRow).where(TaskRow.id == task_id)
        changed(session, task.values(trials_reserved=TaskRow.trials_reserved - count))


def end_task(
    session: Session,
    task_id: int,
    *,
    state: TaskState,
    record_id: int | None = None,
    exhausted: bool = False,
    stopped: str | None = None,
    error: str | None = None,
) -> bool:
    """End an open task; False where it ended before."""
    statement = (
        update(TaskRow)
        .where(TaskRow.id == task_id, TaskRow.state.in_(_OPEN_TASKS))
        .values(
            state=state,
            record_id=record_id,
            exhausted=exhausted,
            stopped=stopped,
            error=error,
            finished_at=utc_now(),
        )
    )
    return changed(session, statement) == 1


def end_job_if_done(session: Session, job_id: str) -> JobState | None:
    """End a running job all of whose tasks ended: failed only if all of them failed. Holds the job's lock."""
    tasks = session.execute(
        select(TaskRow.name, TaskRow.state, TaskRow.error)
        .where(TaskRow.job_id == job_id)
        .order_by(TaskRow.ordinal)
    ).all()
    if any(not TaskState.of(task.state).ended for task in tasks):
        return None
    failed = [task for task in tasks if task.state == TaskState.FAILED]
    state = JobState.FAILED if len(failed) == len(tasks) else JobState.SUCCEEDED
    ended = (
        update(JobRow)
        .where(JobRow.id == job_id, JobRow.state.in_(_OPEN_JOBS))
        .values(
            state=state,
            error=_job_error(failed) if state is JobState.FAILED else None,
            finished_at=utc_now(),
            revision=JobRow.revision + 1,
        )
    )
    return state if changed(session, ended) else None


def raise_revisions(session: Session, job_ids: Collection[str]) -> None:
    """Tell the watchers of some jobs that something changed."""
    if job_ids:
        lock_jobs(session, job_ids)
        jobs = update(JobRow).where(JobRow.id.in_(job_ids))
        changed(session, jobs.values(revision=JobRow.revision + 1))


def _job_error(failed: list[Row[str, str, str | None]]) -> str:
    return "; ".join(f"{task.name}: {task.error}" for task in failed) or "the job has no task"


def _task_query() -> Select[TaskRow, JobRow]:
    return (
        select(TaskRow, JobRow)
        .join(JobRow, JobRow.id == TaskRow.job_id)
        .where(TaskRow.state.in_(_OPEN_TASKS), JobRow.state.in_(_OPEN_JOBS))
        .order_by(TaskRow.id)
    )


def _read_tasks(session: Session, statement: Select[TaskRow, JobRow]) -> list[OpenTask]:
    return [
        OpenTask(
            id=task.id,
            job_id=job.id,
            search_id=task.search_id,
            ordinal=task.ordinal,
            weight=task.weight,
            trials_reserved=task.trials_reserved,
            job_trials_reserved=job.trials_reserved,
            max_trials=job.max_trials,
            max_trials_per_task=job.max_trials_per_task,
            priority=job.priority,
            owner=job.owner,
            job_state=JobState.of(job.state),
            desired_state=DesiredState.of(job.desired_state),
            options=job.options,
        )
        for task, job in session.execute(statement)
    ]
