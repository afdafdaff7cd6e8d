"""The page of one trial, and the failures of a job or of all, grouped by what they say."""

import json
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from db.failures import count_failures, newest_failure_ids, read_failures
from db.jobs import read_job
from db.session import reading
from db.tasks import read_task
from db.traced import module_of_search, search_policy
from db.trials_view import read_trial
from db.workers import read_worker
from services.api.deps import EngineDep, IntakeDep
from services.api.errors import ForbiddenError, NotFoundError
from services.api.ids import RowId
from services.dashboard.failure_groups import grouped
from services.dashboard.page import PageRoute, page
from services.dashboard.remembered import KeptDep
from services.dashboard.viewer import JobsViewer
from services.dashboard.views.fleet import flat

pages = APIRouter(include_in_schema=False, route_class=PageRoute)
data = APIRouter(include_in_schema=False)
#: Failures whose words are read; their counts are of all.
_READ = 5000
_SHOWN_GROUPS = 100


@pages.get("/trials/{trial_id}")
def trial_page(trial_id: RowId, request: Request, who: JobsViewer, engine: EngineDep) -> Response:
    with reading(engine) as session:
        found = read_trial(session, trial_id)
        if found is None:
            raise NotFoundError("trial_not_found", f"There is no trial {trial_id}.")
        trial, trace = found
        task, job = read_task(session, trial.task_id), read_job(session, trial.job_id)
        policy = search_policy(session, trial.search_id)
        worker = None if trial.worker_id is None else read_worker(session, trial.worker_id)
    assert task is not None
    assert job is not None
    return page(
        "trial.html",
        viewer=who,
        request=request,
        tab="jobs",
        trial=trial,
        task=task,
        job=job,
        worker=worker,
        policy=flat(policy),
        facts={} if worker is None else flat(worker.facts),
        spread=_spread(trial.run_secs or []),
        trace=None if trace is None else json.dumps(json.loads(trace), indent=1),
    )


@data.get("/trials/{trial_id}/script")
def script(trial_id: RowId, who: JobsViewer, engine: EngineDep, intake: IntakeDep) -> dict[str, str]:
    """The trial's trace as Python, and the module that it makes, both written by a child."""
    if not who.may("records:read"):
        raise ForbiddenError("missing_scope", "the session lacks the scope records:read")
    with reading(engine) as session:
        found = read_trial(session, trial_id)
        if found is None:
            raise NotFoundError("trial_not_found", f"There is no trial {trial_id}.")
        trial, trace = found
        module = module_of_search(session, trial.search_id)
    if trace is None:
        raise NotFoundError("no_trace", "Retention has not kept the trace.")
    with intake.open() as child:
        texts = child.python(module=module, trace=trace)
    return {"trace": texts["trace_python"], "tuned": texts["script"], "untuned": texts["untuned_script"]}


@pages.get("/failures")
def failures_page(
    request: Request,
    who: JobsViewer,
    engine: EngineDep,
    kept: KeptDep,
    job: Annotated[str | None, Query(max_length=60, pattern=r"^[^\x00]*$")] = None,
) -> Response:
    with reading(engine) as session:
        of = None if not job else read_job(session, job)
        if job and of is None:
            raise NotFoundError("job_not_found", f"There is no job {job}.")
        counts = count_failures(session, job_id=job or None)
        causes = kept.causes.of(session, newest_failure_ids(session, job_id=job or None, limit=_READ))
        groups = grouped(causes)
        shown = groups[:_SHOWN_GROUPS]
        examples = read_failures(session, [trial_id for group in shown for trial_id in group.examples])
    return page(
        "failures.html",
        viewer=who,
        request=request,
        tab="failures",
        job=of,
        counts=counts,
        groups=shown,
        more=len(groups) - len(shown),
        examples={example.trial_id: example for example in examples},
        read=len(causes),
        total=sum(counts.values()),
        most=groups[0].count if groups else 1,
    )


def _spread(run_secs: list[float]) -> float | None:
    """(slowest - fastest) / fastest of the repeats."""
    return (
        (max(run_secs) - min(run_secs)) / min(run_secs) if len(run_secs) > 1 and min(run_secs) > 0 else None
    )
