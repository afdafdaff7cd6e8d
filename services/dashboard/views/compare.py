"""Several jobs, or their strategies, on one axis: weighted latencies by trial, by time, at equal budgets."""

import statistics
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response
from sqlalchemy import Engine
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
from services.dashboard.remembered import Kept, KeptDep
from services.dashboard.tables import Form, table
from services.dashboard.viewer import JobsViewer

pages = APIRouter(include_in_schema=False, route_class=PageRoute)
data = APIRouter(prefix="/download", include_in_schema=False)
_MAX_JOBS = 16
#: Points of a strategy's line.
_GRID = 120
_Asked = Annotated[
    list[Annotated[str, Query(max_length=60, pattern=r"^[^\x00]*$")]] | None, Query(max_length=_MAX_JOBS)
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """How a job went."""

    job: JobSummary
    #: Of each step: which trial of the job's searches, seconds since the job began, weighted latency.
    numbers: list[int]
    at_secs: list[float]
    latencies_secs: list[float]

    @property
    def trials(self) -> int:
        """Search trials that have ended, the farm's failures among them."""
        return self.job.trials.done + self.job.trials.failed

    def latency_at(self, budget: int) -> float | None:
        """The weighted latency after so many trials; None before the first step."""
        reached = [secs for n, secs in zip(self.numbers, self.latencies_secs, strict=True) if n <= budget]
        return reached[-1] if reached else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """How the jobs of one strategy went, together: over those that had a latency by then."""

    name: str
    jobs: int
    #: Trial numbers of the line's points, and there the median, least and most latency over the jobs.
    numbers: list[int]
    medians_secs: list[float]
    least_secs: list[float]
    most_secs: list[float]


@pages.get("/compare")
def compare_page(
    request: Request,
    who: JobsViewer,
    engine: EngineDep,
    kept: KeptDep,
    job: _Asked = None,
    by: Annotated[str, Query(pattern="^(job|strategy)$")] = "job",
) -> Response:
    courses = _asked_courses(engine, job, kept)
    budget = _common_budget(courses)
    return page(
        "compare.html",
        viewer=who,
        request=request,
        tab="jobs",
        courses=courses,
        budget=budget,
        at_budget={course.job.id: course.latency_at(budget) for course in courses},
        by=by,
        strategies=[asdict(each) for each in strategies(courses, budget=budget)],
        lines=[_line(course) for course in courses],
        link=lambda **changes: "/compare?" + urlencode({"job": job or [], "by": by, **changes}, doseq=True),
        one_target=len({course.job.target.key for course in courses}) <= 1,
    )


@data.get("/compare.{form}")
def compare_table(
    form: Form, who: JobsViewer, engine: EngineDep, kept: KeptDep, job: _Asked = None
) -> Response:
    """The steps of every job's line."""
    del who

    def rows() -> Iterator[Mapping[str, Any]]:
        for course in _asked_courses(engine, job, kept):
            line = _line(course)
            steps = zip(course.numbers, course.at_secs, course.latencies_secs, strict=True)
            for number, at_secs, secs in steps:
                told = {"job": line["id"], "name": line["name"], "strategy": line["strategy"]}
                yield told | {"trial": number, "at_secs": at_secs, "weighted_latency_secs": secs}

    columns = ("job", "name", "strategy", "trial", "at_secs", "weighted_latency_secs")
    return table("compare", form, columns, rows())


@data.get("/compared.{form}")
def compared_table(
    form: Form, who: JobsViewer, engine: EngineDep, kept: KeptDep, job: _Asked = None
) -> Response:
    """A row for each job, at the budget that all have and at its end."""
    del who
    courses = _asked_courses(engine, job, kept)
    budget = _common_budget(courses)
    names = (
        *("id", "name", "state", "strategy", "seed", "weighted_latency_secs"),
        *("untuned_weighted_latency_secs", "speedup"),
    )
    rows = (
        {name: getattr(course.job, name) for name in names}
        | {"target": course.job.target.name, "trials": course.trials}
        | {"budget": budget, "latency_at_budget_secs": course.latency_at(budget)}
        for course in courses
    )
    return table("compared", form, (*names, "target", "trials", "budget", "latency_at_budget_secs"), rows)


@data.get("/strategies.{form}")
def strategies_table(
    form: Form, who: JobsViewer, engine: EngineDep, kept: KeptDep, job: _Asked = None
) -> Response:
    """The points of every strategy's line, and what it lies between."""
    del who
    courses = _asked_courses(engine, job, kept)
    rows = (
        {"strategy": each.name, "jobs": each.jobs, "trial": number}
        | {"median_secs": median, "least_secs": least, "most_secs": most}
        for each in strategies(courses, budget=_common_budget(courses))
        for number, median, least, most in zip(
            each.numbers, each.medians_secs, each.least_secs, each.most_secs, strict=True
        )
    )
    columns = ("strategy", "jobs", "trial", "median_secs", "least_secs", "most_secs")
    return table("strategies", form, columns, rows)


def strategies(courses: Sequence[Course], *, budget: int) -> list[Strategy]:
    """By name, each up to the budget that all have."""
    numbers = sorted({max(1, round(budget * step / _GRID)) for step in range(1, _GRID + 1)})
    found = []
    for name in sorted({course.job.strategy for course in courses}):
        own = [course for course in courses if course.job.strategy == name]
        at = [(number, [course.latency_at(number) for course in own]) for number in numbers]
        known = [(number, [each for each in secs if each is not None]) for number, secs in at]
        shown = [(number, secs) for number, secs in known if len(secs) == len(own)]
        found.append(
            Strategy(
                name=name,
                jobs=len(own),
                numbers=[number for number, _ in shown],
                medians_secs=[statistics.median(secs) for _, secs in shown],
                least_secs=[min(secs) for _, secs in shown],
                most_secs=[max(secs) for _, secs in shown],
            )
        )
    return found


def _common_budget(courses: Sequence[Course]) -> int:
    """Trials that every job has had."""
    return min((course.trials for course in courses), default=0)


def _asked_courses(engine: Engine, job: Sequence[str] | None, kept: Kept) -> list[Course]:
    asked = list(dict.fromkeys(job or []))
    with reading(engine) as session:
        found = {each.id: each for each in jobs_of(session, asked)}
        missing = [each for each in asked if each not in found]
        if missing:
            raise NotFoundError("job_not_found", f"There is no job {missing[0]}.")
        return _courses(session, [found[each] for each in asked], kept)


def _courses(session: Session, jobs: list[Job], kept: Kept) -> list[Course]:
    courses = []
    for job, summary in zip(jobs, job_summaries(session, jobs), strict=True):
        tasks = tasks_of_jobs(session, [job.id])
        searches = {task.search_id for task in tasks}
        steps = weighted_history(tasks, improvements(session, searches))
        numbers = _numbers(session, job.id, searches, [step.trial_id for step in steps], kept)
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


def _numbers(
    session: Session, job_id: str, searches: Collection[int], trial_ids: Sequence[int], kept: Kept
) -> dict[int, int]:
    """Which trial of the job's searches each of these is; counted once, for it never changes."""

    def count(_before: dict[int, int] | None) -> dict[int, int]:
        return trial_numbers(session, searches, trial_ids)

    return kept.drawn.get(("numbers", job_id), tuple(trial_ids), count)


def _line(course: Course) -> dict[str, Any]:
    return {
        "name": course.job.name,
        "id": course.job.id,
        "strategy": course.job.strategy,
        "numbers": course.numbers,
        "at_secs": course.at_secs,
        "latencies_secs": course.latencies_secs,
        "trials": course.trials,
    }
