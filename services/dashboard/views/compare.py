"""Several jobs on one axis: weighted latencies by trial and by time, and what each had at equal budgets."""

from dataclasses import dataclass
from itertools import accumulate
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from sqlalchemy.orm import Session

from db.curves import improvements, trial_numbers
from db.jobs import Job, jobs_of
from db.session import reading
from db.tasks import tasks_of_jobs
from services.api.deps import EngineDep
from services.api.errors import NotFoundError
from services.api.schemas import JobSummary
from services.api.views import job_summaries
from services.dashboard.history import weighted_history
from services.dashboard.page import PageRoute, page
from services.dashboard.viewer import JobsViewer

pages = APIRouter(include_in_schema=False, route_class=PageRoute)
_MAX_JOBS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """How a job went."""

    job: JobSummary
    #: Of each step: which trial of the job's searches, seconds since the job began, weighted latency.
    numbers: list[int]
    at_secs: list[float]
    latencies_secs: list[float]

    def latency_at(self, budget: int) -> float | None:
        """The weighted latency after so many trials; None before the first step."""
        reached = [secs for n, secs in zip(self.numbers, self.latencies_secs, strict=True) if n <= budget]
        return reached[-1] if reached else None


@pages.get("/compare")
def compare_page(
    request: Request,
    who: JobsViewer,
    engine: EngineDep,
    job: Annotated[list[Annotated[str, Query(max_length=60)]] | None, Query(max_length=_MAX_JOBS)] = None,
) -> Response:
    asked = list(dict.fromkeys(job or []))
    with reading(engine) as session:
        found = {each.id: each for each in jobs_of(session, asked)}
        missing = [each for each in asked if each not in found]
        if missing:
            raise NotFoundError("job_not_found", f"There is no job {missing[0]}.")
        courses = _courses(session, [found[each] for each in asked])
    done = [course.job.trials.done + course.job.trials.failed for course in courses]
    budget = min(done, default=0)
    return page(
        "compare.html",
        viewer=who,
        request=request,
        tab="jobs",
        courses=courses,
        budget=budget,
        at_budget={course.job.id: course.latency_at(budget) for course in courses},
        lines=[_line(course) for course in courses],
        one_target=len({course.job.target.key for course in courses}) <= 1,
    )


def _courses(session: Session, jobs: list[Job]) -> list[Course]:
    courses = []
    for job, summary in zip(jobs, job_summaries(session, jobs), strict=True):
        tasks = tasks_of_jobs(session, [job.id])
        searches = {task.search_id for task in tasks}
        steps = weighted_history(tasks, improvements(session, searches))
        numbers = trial_numbers(session, searches, [step.trial_id for step in steps])
        begin = job.started_at or job.created_at
        courses.append(
            Course(
                job=summary,
                numbers=list(accumulate((numbers[step.trial_id] for step in steps), max)),
                at_secs=[max(0.0, (step.at - begin).total_seconds()) for step in steps],
                latencies_secs=[step.latency_secs for step in steps],
            )
        )
    return courses


def _line(course: Course) -> dict[str, Any]:
    return {
        "name": course.job.name,
        "id": course.job.id,
        "strategy": course.job.strategy,
        "numbers": course.numbers,
        "at_secs": course.at_secs,
        "latencies_secs": course.latencies_secs,
        "trials": course.job.trials.done + course.job.trials.failed,
    }
