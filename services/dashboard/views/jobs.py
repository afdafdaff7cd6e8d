"""The jobs page, and the page of one job. Numbers are those of the API's views."""

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response
from sqlalchemy.orm import Session

from db.curves import Improvement, improvements
from db.failures import last_errors
from db.jobs import Job
from db.jobs_table import JobFilter, JobSort, count_by_state, count_jobs, page_of_jobs
from db.session import reading
from db.states import JobState
from db.tasks import Task, tasks_of_jobs
from services.api.deps import EngineDep, EventsDep
from services.api.errors import NotFoundError
from services.api.ids import JobId
from services.api.routes.jobs import follow_job
from services.api.schemas import JobSummary, JobView, TaskView
from services.api.views import job_summaries, job_view
from services.dashboard.history import Step, sparkline, weighted_history
from services.dashboard.page import PageRoute, page
from services.dashboard.viewer import JobsViewer

pages = APIRouter(include_in_schema=False, route_class=PageRoute)
data = APIRouter(include_in_schema=False)
PAGE_SIZE = 25
_SPARK = {"width": 96.0, "height": 22.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A job in the list."""

    job: JobSummary
    spark: str
    #: Seconds since the last improvement; None before the first.
    improved_secs: float | None


@pages.get("/")
def jobs_page(
    request: Request,
    who: JobsViewer,
    engine: EngineDep,
    state: Annotated[list[JobState] | None, Query()] = None,
    q: Annotated[str, Query(max_length=120, pattern=r"^[^\x00]*$")] = "",
    sort: Annotated[str, Query(pattern=r"^-?[a-z]{1,20}$")] = "-created",
    page_number: Annotated[int, Query(alias="page", ge=1, le=100_000)] = 1,
) -> Response:
    wanted = wanted_jobs(state or [], q, sort)
    with reading(engine) as session:
        states = count_by_state(session)
        if not states:
            return page("first_run.html", viewer=who, request=request, tab="jobs")
        total = count_jobs(session, wanted)
        jobs = page_of_jobs(session, wanted, limit=PAGE_SIZE, offset=(page_number - 1) * PAGE_SIZE)
        lines = _lines(session, jobs)
    last_page = max(1, -(-total // PAGE_SIZE))
    params: dict[str, object] = {"q": q, "state": [each.value for each in wanted.states], "sort": sort}

    def link(**changes: object) -> str:
        merged = {**params, **changes}
        return "/?" + urlencode({name: value for name, value in merged.items() if value}, doseq=True)

    return page(
        "jobs.html",
        viewer=who,
        request=request,
        tab="jobs",
        lines=lines,
        states=states,
        wanted=wanted,
        sort=sort,
        total=total,
        page_number=page_number,
        last_page=last_page,
        link=link,
        all_states=list(JobState),
        page_size=PAGE_SIZE,
    )


@pages.get("/jobs/{job_id}")
def job_page(
    job_id: JobId,
    request: Request,
    who: JobsViewer,
    engine: EngineDep,
    sort: Annotated[str, Query(pattern=r"^-?[a-z]{1,20}$")] = "id",
) -> Response:
    with reading(engine) as session:
        job = job_view(session, job_id)
        if job is None:
            raise NotFoundError("job_not_found", f"There is no job {job_id}.")
        tasks = tasks_of_jobs(session, [job_id])
        found = improvements(session, {task.search_id for task in tasks})
        errors = last_errors(session, job_id)
    steps = weighted_history(tasks, found)
    return page(
        "job.html",
        viewer=who,
        request=request,
        tab="jobs",
        job=job,
        sort=sort,
        lines=sorted_tasks(job.tasks, sort),
        sparks=_task_sparks(tasks, found),
        shares=_shares(job),
        errors=errors,
        steps=steps,
        chart=_chart(job, steps),
        improved_secs=min((each.age_secs for each in found), default=None),
        options=json.dumps(job.options, indent=1, sort_keys=True) if job.options else "",
    )


@data.get("/jobs/{job_id}/live")
async def live(job_id: JobId, who: JobsViewer, engine: EngineDep, events: EventsDep) -> Response:
    """The job's events, for a page's session."""
    return await follow_job(job_id, who.token, engine, events)


def wanted_jobs(states: list[JobState], text: str, sort: str) -> JobFilter:
    name = sort.removeprefix("-")
    known = name in JobSort.__members__.values()
    return JobFilter(
        states=states,
        text=text.strip(),
        sort=JobSort(name) if known else JobSort.CREATED,
        descending=sort.startswith("-") if known else True,
    )


def _lines(session: Session, jobs: list[Job]) -> list[Line]:
    tasks = tasks_of_jobs(session, [job.id for job in jobs])
    found = improvements(session, {task.search_id for task in tasks})
    lines = []
    for summary in job_summaries(session, jobs):
        own = [task for task in tasks if task.job_id == summary.id]
        searches = {task.search_id for task in own}
        mine = [each for each in found if each.search_id in searches]
        values = [step.latency_secs for step in weighted_history(own, mine)]
        if summary.untuned_weighted_latency_secs is not None:
            values.insert(0, summary.untuned_weighted_latency_secs)
        lines.append(
            Line(
                job=summary,
                spark=sparkline(values, **_SPARK),
                improved_secs=min((each.age_secs for each in mine), default=None),
            )
        )
    return lines


def _task_sparks(tasks: list[Task], found: list[Improvement]) -> dict[int, str]:
    by_search: dict[int, list[float]] = defaultdict(list)
    for each in found:
        by_search[each.search_id].append(each.latency_secs)
    return {task.id: sparkline(by_search[task.search_id], **_SPARK) for task in tasks}


def sorted_tasks(tasks: Sequence[TaskView], sort: str) -> list[tuple[int, TaskView]]:
    """With their MetaSchedule IDs; `-` before a column's name: largest first. What is unknown comes last."""
    numbered = list(enumerate(tasks))
    column = _TASK_SORTS.get(sort.removeprefix("-"))
    if column is None:
        return numbered
    known = [each for each in numbered if column(each[1]) is not None]
    known.sort(key=lambda each: column(each[1]), reverse=sort.startswith("-"))
    return known + [each for each in numbered if column(each[1]) is None]


def _weighted(task: TaskView) -> float | None:
    return None if task.best_latency_secs is None else task.weight * task.best_latency_secs


#: By what the tasks of a job may be sorted; no entry: in their order.
_TASK_SORTS: dict[str, Callable[[TaskView], Any]] = {
    "name": lambda task: task.name,
    "flop": lambda task: task.flops or None,
    "weight": lambda task: task.weight,
    "speed": lambda task: task.gflops or None,
    "latency": lambda task: task.best_latency_secs,
    "weighted": _weighted,
    "trials": lambda task: task.trials.done + task.trials.failed,
    "speedup": lambda task: task.speedup,
}


def _shares(job: JobView) -> dict[int, float | None]:
    """Of the job's weighted latency, each task's part; None until it is known."""
    total = job.weighted_latency_secs
    return {
        task.id: None
        if not total or task.best_latency_secs is None
        else task.weight * task.best_latency_secs / total
        for task in job.tasks
    }


def _chart(job: JobView, steps: list[Step]) -> dict[str, object]:
    """What the step chart of the header draws: seconds since the job was made, and seconds."""
    begin = job.started_at or job.created_at
    times = [max(0.0, (step.at - begin).total_seconds()) for step in steps]
    untuned = job.untuned_weighted_latency_secs
    return {
        "times_secs": times,
        "latencies_secs": [step.latency_secs for step in steps],
        "untuned_secs": untuned,
        "now_secs": None if job.finished_at is None else max(0.0, (job.finished_at - begin).total_seconds()),
    }
