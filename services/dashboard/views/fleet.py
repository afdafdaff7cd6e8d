"""The fleet: which workers live, what each does now, and what waits for them."""

import json
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from db.load import Held, WorkerRate, held_trials, queue_depths, worker_rates
from db.session import reading
from db.workers import Worker, list_workers
from services.api.deps import EngineDep, SettingsDep
from services.api.worker_views import Health, health
from services.dashboard.page import PageRoute, page
from services.dashboard.viewer import JobsViewer

pages = APIRouter(include_in_schema=False, route_class=PageRoute)
_RATE_SECS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A worker in the table."""

    worker: Worker
    health: Health
    holds: list[Held]
    rate: WorkerRate | None
    facts: dict[str, str]


@pages.get("/fleet")
def fleet_page(
    request: Request,
    who: JobsViewer,
    engine: EngineDep,
    settings: SettingsDep,
    *,
    left: Annotated[bool, Query()] = False,
) -> Response:
    with reading(engine) as session:
        workers = list_workers(session, include_left=left)
        held = held_trials(session, {trial for worker in workers for trial, _ in worker.holding})
        rates = worker_rates(session, within_secs=_RATE_SECS)
        depths = queue_depths(session)
    lines = [
        Line(
            worker=worker,
            health=health(worker, settings),
            holds=[held[trial] for trial, _ in worker.holding if trial in held],
            rate=rates.get(worker.id),
            facts={name: _text(value) for name, value in sorted(worker.facts.items())},
        )
        for worker in workers
    ]
    return page(
        "fleet.html",
        viewer=who,
        request=request,
        tab="fleet",
        lines=lines,
        depths=depths,
        left=left,
        serves={line.worker.target_key for line in lines if line.health in {"alive", "stale"}},
        rate_secs=_RATE_SECS,
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
