"""The page of one task: its curve, its cost model, its latencies, its decisions, and the schedule that won.

The numbers of its charts are in views/task_numbers.py.
"""

from fastapi import APIRouter, Request, Response

from db.jobs import read_job
from db.records import read_record
from db.session import reading
from db.tasks import read_task
from db.trials_view import list_trials
from db.workers import latest_workers, worker_names
from services.api.deps import EngineDep
from services.api.errors import NotFoundError
from services.api.ids import RowId
from services.api.views import task_views
from services.dashboard.page import PageRoute, page
from services.dashboard.viewer import JobsViewer
from services.roofline import bound

pages = APIRouter(include_in_schema=False, route_class=PageRoute)
_NEWEST = 12


@pages.get("/tasks/{task_id}")
def task_page(task_id: RowId, request: Request, who: JobsViewer, engine: EngineDep) -> Response:
    with reading(engine) as session:
        task = read_task(session, task_id)
        if task is None:
            raise task_not_found(task_id)
        job = read_job(session, task.job_id)
        assert job is not None
        view = task_views(session, [task])[0]
        record = None if task.record_id is None else read_record(session, task.record_id)
        newest = list_trials(session, task.job_id, limit=_NEWEST, after_id=None, task_id=task_id)
        names = worker_names(session, {trial.worker_id for trial in newest if trial.worker_id is not None})
        workers = latest_workers(session, target_key=job.target_key)
    least = bound(workers, target_key=job.target_key, flops=task.flops, args=task.args)
    best = view.best_latency_secs
    return page(
        "task.html",
        viewer=who,
        request=request,
        tab="jobs",
        job=job,
        task=view,
        record=record,
        newest=newest,
        names=names,
        bound=least,
        of_bound=None if least is None or not best else least.secs / best,
        lookup_target=job.target_name,
    )


def task_not_found(task_id: int) -> NotFoundError:
    return NotFoundError("task_not_found", f"There is no task {task_id}.")
