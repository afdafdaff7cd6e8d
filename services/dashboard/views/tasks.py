"""The page of one task: its curve, its cost model, its latencies, and the schedule that won."""

from typing import Any

from fastapi import APIRouter, Request, Response

from db.curves import Point, points
from db.jobs import read_job
from db.records import read_record
from db.session import reading
from db.states import Outcome
from db.tasks import Task, read_task
from db.trials_view import list_trials
from services.api.deps import EngineDep, IntakeDep
from services.api.errors import ForbiddenError, NotFoundError
from services.api.ids import RowId
from services.api.routes.tasks import show_task_record
from services.api.views import task_views
from services.dashboard.downsampling import downsample, improving
from services.dashboard.page import PageRoute, page
from services.dashboard.viewer import JobsViewer

pages = APIRouter(include_in_schema=False, route_class=PageRoute)
data = APIRouter(include_in_schema=False)
_NEWEST = 20


@pages.get("/tasks/{task_id}")
def task_page(task_id: RowId, request: Request, who: JobsViewer, engine: EngineDep) -> Response:
    with reading(engine) as session:
        task = read_task(session, task_id)
        if task is None:
            raise _not_found(task_id)
        job = read_job(session, task.job_id)
        assert job is not None
        view = task_views(session, [task])[0]
        record = None if task.record_id is None else read_record(session, task.record_id)
        newest = list_trials(session, task.job_id, limit=_NEWEST, after_id=None, task_id=task_id)
    return page(
        "task.html",
        viewer=who,
        request=request,
        tab="jobs",
        job=job,
        task=view,
        record=record,
        newest=newest,
        lookup_target=job.target_name,
    )


@data.get("/tasks/{task_id}/curve")
def curve(task_id: RowId, who: JobsViewer, engine: EngineDep) -> dict[str, Any]:
    """The task's trials as columns, down-sampled; those of the same search, whichever job paid for them."""
    del who
    with reading(engine) as session:
        task = read_task(session, task_id)
        if task is None:
            raise _not_found(task_id)
        found = points(session, task.search_id)
        record = None if task.record_id is None else read_record(session, task.record_id)
    return _columns(task, found) | {"record_secs": None if record is None else record.latency_secs}


@data.get("/tasks/{task_id}/scripts")
def scripts(task_id: RowId, who: JobsViewer, engine: EngineDep, intake: IntakeDep) -> dict[str, str]:
    """The winner's trace as Python, and the module before and after it."""
    if not who.may("records:read"):
        raise ForbiddenError("missing_scope", "the session lacks the scope records:read")
    found = show_task_record(task_id, who.token, engine, intake)
    return {"trace": found.trace_python, "tuned": found.script, "untuned": found.untuned_script}


def _columns(task: Task, found: list[Point]) -> dict[str, Any]:
    kept = downsample(found)
    begin = min((point.done_at for point in found), default=None)
    best = {point.trial_id for point in improving(found)}
    return {
        "trials": [point.trial_id for point in kept],
        "numbers": [point.number for point in kept],
        "latencies_secs": [point.latency_secs for point in kept],
        "outcomes": [point.outcome.value for point in kept],
        "rounds": [point.round for point in kept],
        "predicted": [point.predicted_score for point in kept],
        "at_secs": [0.0 if begin is None else (point.done_at - begin).total_seconds() for point in kept],
        "improvements": [point.trial_id in best for point in kept],
        "untuned_secs": task.untuned_latency_secs,
        "flops": task.flops,
        "total": len(found),
        "rank_by_round": rank_by_round(found),
    }


def rank_by_round(found: list[Point]) -> list[dict[str, float]]:
    """Of each round that was predicted: Spearman's correlation of predicted score and measured speed."""
    rounds: dict[int, list[tuple[float, float]]] = {}
    for point in found:
        timed = point.outcome is Outcome.OK and point.latency_secs
        if timed and point.predicted_score is not None:
            rounds.setdefault(point.round, []).append((point.predicted_score, -point.latency_secs))  # type: ignore[operator]  # it is timed
    correlations = ((number, _spearman(pairs)) for number, pairs in sorted(rounds.items()))
    return [{"round": number, "rank": rank} for number, rank in correlations if rank is not None]


def _spearman(pairs: list[tuple[float, float]]) -> float | None:
    """None below four pairs, or where one side is constant."""
    if len(pairs) < 4:
        return None
    one, other = _ranks([pair[0] for pair in pairs]), _ranks([pair[1] for pair in pairs])
    mean = (len(pairs) - 1) / 2
    above = sum((a - mean) * (b - mean) for a, b in zip(one, other, strict=True))
    below = (sum((a - mean) ** 2 for a in one) * sum((b - mean) ** 2 for b in other)) ** 0.5
    return above / below if below else None


def _ranks(values: list[float]) -> list[float]:
    """Equal values share the mean of their ranks."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end + 1 < len(order) and values[order[end + 1]] == values[order[start]]:
            end += 1
        for index in order[start : end + 1]:
            ranks[index] = (start + end) / 2
        start = end + 1
    return ranks


def _not_found(task_id: int) -> NotFoundError:
    return NotFoundError("task_not_found", f"There is no task {task_id}.")
