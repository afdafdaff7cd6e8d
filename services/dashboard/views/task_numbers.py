"""What the charts of a task draw, as columns: its trials, down-sampled, and the decisions of their traces."""

import json
from collections.abc import Hashable
from dataclasses import replace
from datetime import timedelta
from operator import attrgetter
from typing import Any

from fastapi import APIRouter, Request, Response
from sqlalchemy.orm import Session

from checks.space import NAMED
from db.curves import Point, curve_mark, points
from db.imports import IMPORTED
from db.jobs import read_job
from db.records import read_record
from db.session import reading
from db.states import Outcome
from db.tasks import Task, read_task
from db.traced import TracedTrial, module_of_search, search_space, traced_trials
from db.workers import latest_workers
from services.api.deps import EngineDep, IntakeDep
from services.api.errors import ForbiddenError
from services.api.ids import RowId
from services.api.routes.tasks import show_task_record
from services.dashboard.decisions import axes
from services.dashboard.downsampling import downsample, improving
from services.dashboard.ranks import rank_by_round
from services.dashboard.remembered import Kept, KeptDep
from services.dashboard.sending import send
from services.dashboard.spread import histogram
from services.dashboard.viewer import JobsViewer
from services.dashboard.views.tasks import task_not_found
from services.roofline import bound

data = APIRouter(include_in_schema=False)
#: Of the explorer: the fastest trials, a sample of all, and the axes that tell most.
_FASTEST, _SAMPLE, _AXES = 120, 180, 8
#: A transaction that records a trial takes less.
_OVERLAP = timedelta(seconds=60)
_BY_ID = attrgetter("trial_id")


@data.get("/tasks/{task_id}/curve")
def curve(task_id: RowId, request: Request, who: JobsViewer, engine: EngineDep, kept: KeptDep) -> Response:
    """The task's trials as columns, down-sampled; those of the same search, whichever job paid for them."""
    del who
    with reading(engine) as session:
        task = _task(session, task_id)
        mark = curve_mark(session, task.search_id)

        def draw(_before: dict[str, Any] | None) -> dict[str, Any]:
            return _columns(_points(session, task.search_id, mark, kept))

        drawn = kept.drawn.get(("curve", task.search_id), mark, draw)
        lines = _lines(session, task)
    return _json(request, {**drawn, **lines})


@data.get("/tasks/{task_id}/decisions")
def decisions(
    task_id: RowId, request: Request, who: JobsViewer, engine: EngineDep, kept: KeptDep
) -> Response:
    """The decisions that tell most about latency: of the fastest trials and of a sample of all."""
    del who
    return _json(request, decisions_of_task(engine, task_id, kept))


def points_of_task(engine: EngineDep, task_id: int, kept: Kept) -> list[Point]:
    """Every trial of the task's search that has ended, in the order in which they were made."""
    with reading(engine) as session:
        task = _task(session, task_id)
        mark = curve_mark(session, task.search_id)
        return _points(session, task.search_id, mark, kept)


def decisions_of_task(engine: EngineDep, task_id: int, kept: Kept) -> dict[str, Any]:
    with reading(engine) as session:
        task = _task(session, task_id)
        mark: Hashable = curve_mark(session, task.search_id)

        def read(_before: dict[str, Any] | None) -> dict[str, Any]:
            return _decisions(traced_trials(session, task.search_id, fastest=_FASTEST, sample=_SAMPLE))

        return kept.drawn.get(("decisions", task.search_id), mark, read)


@data.get("/tasks/{task_id}/scripts")
def scripts(task_id: RowId, who: JobsViewer, engine: EngineDep, intake: IntakeDep) -> dict[str, str]:
    """The winner's trace as Python, and the module before and after it."""
    if not who.may("records:read"):
        raise ForbiddenError("missing_scope", "the session lacks the scope records:read")
    found = show_task_record(task_id, who.token, engine, intake)
    return {"trace": found.trace_python, "tuned": found.script, "untuned": found.untuned_script}


@data.get("/tasks/{task_id}/job.json")
def job_again(task_id: RowId, who: JobsViewer, engine: EngineDep) -> Response:
    """A submission that tunes this task again as its job did, in a search of its own."""
    del who
    with reading(engine) as session:
        task = _task(session, task_id)
        job = read_job(session, task.job_id)
        module = module_of_search(session, task.search_id)
        space = search_space(session, task.search_id)
    assert job is not None
    body: dict[str, Any] = {
        "name": f"{task.name} again"[:200],
        "module": json.loads(module),
        "target": job.target,
        "max_trials": max(1, task.trials_reserved),
        "seed": job.seed,
        "options": {**job.options, "isolation_key": f"again-{job.id}"},
        # Imports are a list, and no search that could be run again.
        **({} if job.strategy == IMPORTED else {"strategy": job.strategy, **_asked_space(space)}),
    }
    headers = {
        "Content-Disposition": f'attachment; filename="task-{task_id}.job.json"',
        "Cache-Control": "no-store",
    }
    return Response(json.dumps(body), media_type="application/json", headers=headers)


def _asked_space(space: dict[str, Any] | None) -> dict[str, Any]:
    """A search's design space as a submission asks for it."""
    named = next((name for name in ("stock", "tilefarm") if NAMED[name] == space), None)
    return {"spaces": {"main": space}} if named is None else {"space": named}


def _task(session: Session, task_id: int) -> Task:
    task = read_task(session, task_id)
    if task is None:
        raise task_not_found(task_id)
    return task


def _lines(session: Session, task: Task) -> dict[str, Any]:
    """The horizontal lines of the curve: untuned, incumbent, roofline."""
    record = None if task.record_id is None else read_record(session, task.record_id)
    job = read_job(session, task.job_id)
    assert job is not None
    workers = latest_workers(session, target_key=job.target_key)
    least = bound(workers, target_key=job.target_key, flops=task.flops, args=task.args)
    return {
        "untuned_secs": task.untuned_latency_secs,
        "record_secs": None if record is None else record.latency_secs,
        "roofline_secs": None if least is None else least.secs,
        "roofline_says": None if least is None else least.says,
        "flops": task.flops,
    }


def _points(session: Session, search_id: int, mark: tuple[Any, ...], kept: Kept) -> list[Point]:
    def read(known: list[Point] | None) -> list[Point]:
        return _grown(session, search_id, known, count=mark[0])

    found: list[Point] = kept.points.get(search_id, mark, read)
    return found


def _grown(session: Session, search_id: int, known: list[Point] | None, *, count: int) -> list[Point]:
    """The search's points: those known, and those done since; all are read where that does not add up."""
    if known:
        since = max(point.done_at for point in known) - _OVERLAP
        fresh = {point.trial_id: point for point in points(session, search_id, done_after=since)}
        merged = sorted([*(p for p in known if p.trial_id not in fresh), *fresh.values()], key=_BY_ID)
        if len(merged) == count:
            return [p if p.number == n else replace(p, number=n) for n, p in enumerate(merged, 1)]
    return points(session, search_id)


def _columns(found: list[Point]) -> dict[str, Any]:
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
        "at_secs": [
            0.0 if begin is None else round((point.done_at - begin).total_seconds(), 2) for point in kept
        ],
        "improvements": [point.trial_id in best for point in kept],
        "total": len(found),
        "rank_by_round": rank_by_round(found),
        "spread": histogram(measured_secs(found)),
    }


def measured_secs(found: list[Point]) -> list[float]:
    return [point.latency_secs for point in found if point.outcome is Outcome.OK and point.latency_secs]


def _decisions(found: list[TracedTrial]) -> dict[str, Any]:
    """Trials by latency; of each axis its values by trial."""
    latencies = [trial.latency_secs for trial in found]
    chosen = axes([json.loads(trial.trace) for trial in found], latencies, most=_AXES) if found else []
    return {
        "trials": [trial.trial_id for trial in found],
        "latencies_secs": latencies,
        "axes": [
            {"name": axis.name, "part": axis.part, "explains": axis.explains, "values": axis.values}
            for axis in chosen
        ],
    }


def _json(request: Request, content: dict[str, Any]) -> Response:
    text = json.dumps(content, separators=(",", ":"))
    return send(request, text.encode(), media_type="application/json")
