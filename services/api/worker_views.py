"""Workers as their watchers see them: alive, stale or dead by database time."""

import dataclasses
from typing import Literal

from db.states import WorkerState
from db.workers import Worker
from services.api.schemas_records import WorkerView
from services.api.settings import ApiSettings

Health = Literal["alive", "stale", "dead", "left"]


def health(worker: Worker, settings: ApiSettings) -> Health:
    if worker.state == WorkerState.LEFT:
        return "left"
    if worker.silent_secs > settings.dead_after_secs:
        return "dead"
    return "stale" if worker.silent_secs > settings.stale_after_secs else "alive"


def worker_view(worker: Worker, settings: ApiSettings) -> WorkerView:
    return WorkerView(**dataclasses.asdict(worker), health=health(worker, settings))
