"""A job that has ended, tuned on: a new job of the same tasks, whose searches go on from what they know.

An end is final, for whoever waited for it; so the extended budget is a job of its own. Nothing is read by TVM
again: workloads, targets and searches are rows already.
"""

from typing import Any

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from db.jobs import Job, NewJob, insert_job, read_job
from db.session import transaction
from db.targets import store_target, workers_alive
from db.tasks import NewTask, insert_task, tasks_of_jobs
from services.api.errors import ConflictError, NotFoundError
from services.api.sender import RacedError, Sender, claim_key, earlier_job
from services.api.settings import ApiSettings
from services.api.submission import no_worker, require_budget

#: Warnings that are of one job's time, not of its modules.
_OF_THEN = frozenset({"no_worker", "continues"})
_SAME = ("ordinal", "name", "weight", "workload_id", "search_id")


def continue_from(
    job_id: str, max_trials: int, sender: Sender, *, engine: Engine, settings: ApiSettings
) -> str:
    """The id of the new job, owned by the sender; a retry under the same key makes no second.

    Raises ApiError: no such job, it has not ended, the budget is out of range.
    """
    require_budget(max_trials, settings)
    earlier = earlier_job(engine, sender)
    if earlier is not None:
        return earlier
    try:
        with transaction(engine) as session:
            return _write(session, job_id, max_trials, sender, settings)
    except RacedError:
        earlier = earlier_job(engine, sender)
        assert earlier is not None
        return earlier


def _write(session: Session, job_id: str, max_trials: int, sender: Sender, settings: ApiSettings) -> str:
    job = read_job(session, job_id)
    if job is None:
        raise NotFoundError("job_not_found", f"there is no job {job_id}")
    if not job.state.ended:
        raise ConflictError("job_not_ended", f"{job_id} is {job.state}: change its max_trials instead")
    target = store_target(session, job.target, key=job.target_key)
    alive = workers_alive(session, dead_after_secs=settings.dead_after_secs).get(target.id, 0)
    new = NewJob(
        name=job.name,
        owner=sender.name,
        target_id=target.id,
        target_name=job.target_name,
        priority=job.priority,
        max_trials=max_trials,
        max_trials_per_task=job.max_trials_per_task,
        strategy=job.strategy,
        seed=job.seed,
        options=job.options,
        warnings=_warnings(job, alive=alive),
    )
    made = insert_job(session, new)
    for task in tasks_of_jobs(session, [job_id]):
        same = {name: getattr(task, name) for name in _SAME}
        insert_task(session, NewTask(job_id=made, **same))
    claim_key(session, sender, made)
    return made


def _warnings(job: Job, *, alive: int) -> list[dict[str, Any]]:
    kept = [warning for warning in job.warnings if warning["code"] not in _OF_THEN]
    said = {"code": "continues", "function": None, "detail": f"its searches go on from what {job.id} found"}
    return [said, *kept, *([] if alive else [no_worker(job.target_name)])]
