"""Jobs and tasks as their watchers see them, made of rows with a fixed number of queries."""

from collections import Counter
from collections.abc import Collection, Sequence

from sqlalchemy.orm import Session

from db.jobs import Job, read_job
from db.states import JobState, Outcome, TrialState
from db.tasks import Task, tasks_of_jobs
from db.trials_view import Count, counts_of_jobs
from services.api.schemas import JobSummary, JobView, TargetView, TaskView, TrialCounts, Warned


def job_view(session: Session, job_id: str) -> JobView | None:
    job = read_job(session, job_id)
    if job is None:
        return None
    tasks = tasks_of_jobs(session, [job_id])
    counts = counts_of_jobs(session, [job_id])
    views = [task_view(task, [c for c in counts if c.task_id == task.id]) for task in tasks]
    return JobView(**_summary(job, tasks, counts), tasks=views)


def job_summaries(session: Session, jobs: Sequence[Job]) -> list[JobSummary]:
    ids = [job.id for job in jobs]
    tasks: dict[str, list[Task]] = {job_id: [] for job_id in ids}
    counts: dict[str, list[Count]] = {job_id: [] for job_id in ids}
    for task in tasks_of_jobs(session, ids):
        tasks[task.job_id].append(task)
    for count in counts_of_jobs(session, ids):
        counts[count.job_id].append(count)
    return [JobSummary(**_summary(job, tasks[job.id], counts[job.id])) for job in jobs]


def task_views(session: Session, tasks: Sequence[Task]) -> list[TaskView]:
    counts = counts_of_jobs(session, {task.job_id for task in tasks})
    return [task_view(task, [c for c in counts if c.task_id == task.id]) for task in tasks]


def task_view(task: Task, counts: Collection[Count]) -> TaskView:
    best = task.best_latency_secs
    return TaskView(
        id=task.id,
        job_id=task.job_id,
        name=task.name,
        workload=task.shash,
        flops=task.flops,
        weight=task.weight,
        state=task.state,
        max_trials=task.max_trials,
        trials=_trial_counts(counts),
        outcomes=_outcomes(counts),
        best_latency_secs=best,
        untuned_latency_secs=task.untuned_latency_secs,
        speedup=_ratio(task.untuned_latency_secs, best),
        gflops=gflops(task.flops, best),
        record_id=task.record_id,
        exhausted=task.exhausted,
        stopped=task.stopped,
        already_tuned=task.already_tuned,
        error=task.error,
        args=task.args,
        search_id=task.search_id,
    )


def gflops(flops: float, latency_secs: float | None) -> float | None:
    rate = _ratio(flops, latency_secs)
    return None if rate is None else rate / 1e9


def _summary(job: Job, tasks: Sequence[Task], counts: Collection[Count]) -> dict[str, object]:
    best = _best_so_far(tasks)
    untuned = _weighted([(task.weight, task.untuned_latency_secs) for task in tasks])
    trials = _trial_counts(counts)
    return {
        **{
            name: getattr(job, name)
            for name in (
                *("id", "name", "owner", "state", "desired_state", "priority", "max_trials"),
                *("max_trials_per_task", "strategy", "seed", "options", "created_at", "started_at"),
                *("finished_at", "error", "revision"),
            )
        },
        "target": TargetView(name=job.target_name, canonical=job.target, key=job.target_key),
        "trials": trials,
        "outcomes": _outcomes(counts),
        "weighted_latency_secs": best,
        "untuned_weighted_latency_secs": untuned,
        "speedup": _ratio(untuned, best),
        "eta_secs": _eta_secs(job, tasks, trials),
        "warnings": [Warned(**warning) for warning in job.warnings],
        "stage_secs": _stage_secs(tasks),
    }


def _eta_secs(job: Job, tasks: Sequence[Task], trials: TrialCounts) -> float | None:
    """At the job's own pace since it started; None while there is no pace."""
    finished = trials.done + trials.failed
    if job.state != JobState.RUNNING or not finished or not job.running_secs:
        return None
    charged = sum(task.trials_reserved for task in tasks)
    room = sum(task.max_trials - task.trials_reserved for task in tasks if not task.state.ended)
    left = trials.queued + trials.dispatched + min(job.max_trials - charged, room)
    return max(0, left) * job.running_secs / finished


def _trial_counts(counts: Collection[Count]) -> TrialCounts:
    by_state: Counter[TrialState] = Counter()
    for count in counts:
        by_state[count.state] += count.count
    submitted = by_state.total()
    known = {state.value: by_state[state] for state in TrialState}
    return TrialCounts(submitted=submitted, other=submitted - sum(known.values()), **known)


def _outcomes(counts: Collection[Count]) -> dict[Outcome, int]:
    outcomes: Counter[Outcome] = Counter()
    for count in counts:
        if count.outcome is not None:
            outcomes[count.outcome] += count.count
    return dict(sorted(outcomes.items()))


def _best_so_far(tasks: Sequence[Task]) -> float | None:
    """Weighted latency, seconds. A task of which no candidate is measured yet counts as it came."""
    if all(task.best_latency_secs is None for task in tasks):
        return None
    return _weighted(
        [
            (
                task.weight,
                task.untuned_latency_secs if task.best_latency_secs is None else task.best_latency_secs,
            )
            for task in tasks
        ]
    )


def _weighted(parts: Sequence[tuple[float, float | None]]) -> float | None:
    known = [weight * latency for weight, latency in parts if latency is not None]
    return sum(known) if parts and len(known) == len(parts) else None


def _ratio(above: float | None, below: float | None) -> float | None:
    return above / below if above is not None and below else None


def _stage_secs(tasks: Sequence[Task]) -> dict[str, float]:
    """Summed over the searches, each once."""
    total: Counter[str] = Counter()
    for stage_secs in {task.search_id: task.stage_secs for task in tasks}.values():
        total.update(stage_secs)
    return {stage: round(secs, 3) for stage, secs in sorted(total.items())}
