"""The fleet: which workers live, what each does now and did lately, and what waits for them."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Annotated, Any, TypeGuard

from fastapi import APIRouter, Query, Request, Response

from db.load import Held, QueueDepth, WorkerRate, held_trials, latest_work, queue_depths, worker_rates
from db.session import reading
from db.states import WorkerState
from db.workers import Worker, list_workers
from services.api.deps import EngineDep, SettingsDep
from services.api.worker_views import Health, health
from services.dashboard.activity import BARS, SPAN_SECS, Activity, activity
from services.dashboard.page import PageRoute, page
from services.dashboard.tables import Form, table
from services.dashboard.viewer import JobsViewer
from services.dashboard.words import bytes_

pages = APIRouter(include_in_schema=False, route_class=PageRoute)
data = APIRouter(prefix="/download", include_in_schema=False)
_RATE_SECS = 60.0
#: Trials of the timeline's half hour that are read.
_MOST_WORK = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Doing:
    """Trials of one task that a worker holds, the first of them by its id."""

    task_name: str
    trial_id: int
    trials: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A worker in the table."""

    worker: Worker
    health: Health
    holds: list[Held]
    rate: WorkerRate | None
    activity: Activity | None
    facts: dict[str, str]

    @property
    def doing(self) -> list[Doing]:
        """The trials that it holds, by task."""
        by_task: dict[int, list[Held]] = {}
        for held in self.holds:
            by_task.setdefault(held.task_id, []).append(held)
        return [
            Doing(task_name=each[0].task_name, trial_id=each[0].trial_id, trials=len(each))
            for each in by_task.values()
        ]

    def measured(self, part: str, name: str) -> float | None:
        """A number of the self-test or of the sensors."""
        told = self.worker.facts.get(part)
        found = told.get(name) if isinstance(told, dict) else None
        return float(found) if isinstance(found, (int, float)) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """The fleet in numbers: of the workers that have not left."""

    there: int
    alive: int
    #: Of those that do not serve as they should: stale, dead, draining, quarantined; how many.
    ailing: Counter[str]
    rate: WorkerRate
    #: Share of the last half hour, over the workers that live; None where none does.
    busy: float | None
    queued: int
    dispatched: int
    #: Of the open trials; None where there is none.
    oldest_secs: float | None


@pages.get("/fleet")
def fleet_page(
    request: Request,
    who: JobsViewer,
    engine: EngineDep,
    settings: SettingsDep,
    *,
    left: Annotated[bool, Query()] = False,
) -> Response:
    lines = _lines(engine, settings, left=left)
    with reading(engine) as session:
        depths = queue_depths(session)
    return page(
        "fleet.html",
        viewer=who,
        request=request,
        tab="fleet",
        lines=lines,
        whole=_whole(lines, depths),
        depths=depths,
        left=left,
        serves={line.worker.target_key for line in lines if line.health in {"alive", "stale"}},
        span_secs=SPAN_SECS,
        bars=BARS,
    )


@data.get("/workers.{form}")
def workers_table(form: Form, who: JobsViewer, engine: EngineDep, settings: SettingsDep) -> Response:
    """Every worker, those that left among them."""
    del who
    columns = (
        *("id", "name", "host", "device", "device_class", "target", "role", "health", "state", "cores"),
        *("memory_bytes", "tvm_version", "silent_secs", "done_a_minute", "failed_a_minute", "busy", "facts"),
    )
    rows = (_row(line) for line in _lines(engine, settings, left=True))
    return table("workers", form, columns, rows)


@data.get("/activity.{form}")
def activity_table(form: Form, who: JobsViewer, engine: EngineDep, settings: SettingsDep) -> Response:
    """The timeline: of each worker and bar, the shares of its seconds; the last bar ends now."""
    del who
    rows = (
        {
            "worker": line.worker.name,
            "from_secs_ago": SPAN_SECS * (BARS - bar) / BARS,
            "building": round(line.activity.building[bar], 4),
            "measuring": round(line.activity.measuring[bar], 4),
        }
        for line in _lines(engine, settings, left=False)
        if line.activity is not None
        for bar in range(BARS)
    )
    return table("activity", form, ("worker", "from_secs_ago", "building", "measuring"), rows)


@data.get("/queues.{form}")
def queues_table(form: Form, who: JobsViewer, engine: EngineDep) -> Response:
    del who
    with reading(engine) as session:
        depths = queue_depths(session)
    columns = ("target_key", "target", "queued", "dispatched", "oldest_secs")
    return table(
        "queues", form, columns, ({name: getattr(each, name) for name in columns} for each in depths)
    )


def _lines(engine: EngineDep, settings: SettingsDep, *, left: bool) -> list[Line]:
    with reading(engine) as session:
        workers = list_workers(session, include_left=left)
        held = held_trials(session, {trial for worker in workers for trial, _ in worker.holding})
        rates = worker_rates(session, within_secs=_RATE_SECS)
        acted = activity(latest_work(session, within_secs=SPAN_SECS, limit=_MOST_WORK))
    return [
        Line(
            worker=worker,
            health=health(worker, settings),
            holds=[held[trial] for trial, _ in worker.holding if trial in held],
            rate=rates.get(worker.id),
            activity=acted.get(worker.id),
            facts=flat(worker.facts),
        )
        for worker in workers
    ]


def _whole(lines: Sequence[Line], depths: Sequence[QueueDepth]) -> Whole:
    there = [line for line in lines if line.health != "left"]
    alive = [line for line in there if line.health == "alive"]
    rates = [line.rate for line in there if line.rate is not None]
    return Whole(
        there=len(there),
        alive=len(alive),
        ailing=Counter(
            line.health if line.health != "alive" else line.worker.state.value
            for line in there
            if line.health != "alive" or line.worker.state != WorkerState.RUNNING
        ),
        rate=WorkerRate(
            worker_id="", done=sum(rate.done for rate in rates), failed=sum(rate.failed for rate in rates)
        ),
        busy=fmean(line.activity.busy if line.activity else 0.0 for line in alive) if alive else None,
        queued=sum(depth.queued for depth in depths),
        dispatched=sum(depth.dispatched for depth in depths),
        oldest_secs=max((depth.oldest_secs for depth in depths), default=None),
    )


def _row(line: Line) -> dict[str, Any]:
    worker = line.worker
    names = ("id", "name", "host", "device", "device_class", "target", "role", "state", "cores")
    return {name: getattr(worker, name) for name in (*names, "memory_bytes", "tvm_version", "facts")} | {
        "health": line.health,
        "silent_secs": round(worker.silent_secs, 1),
        "done_a_minute": line.rate.done if line.rate else 0,
        "failed_a_minute": line.rate.failed if line.rate else 0,
        "busy": round(line.activity.busy, 4) if line.activity else 0.0,
    }


def flat(facts: dict[str, Any], before: str = "") -> dict[str, str]:
    """Facts by name, those within facts under both names; what is null is not there."""
    found: dict[str, str] = {}
    for name, value in sorted(facts.items()):
        called = f"{before}{name}".replace("_", " ")
        if isinstance(value, dict):
            found |= flat(value, f"{called}: ")
        elif value is not None:
            found[called.removesuffix(" bytes")] = bytes_(value) if _is_bytes(name, value) else _text(value)
    return found


def _is_bytes(name: str, value: object) -> TypeGuard[int]:
    return name.endswith("_bytes") and isinstance(value, int)


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e5 else f"{value:,.0f}"
    return value if isinstance(value, str) else json.dumps(value)
