"""Puts the dashboard into the API's app: pages for people, on the addresses that `/v1` leaves free."""

from fastapi import FastAPI

from services.dashboard import assets
from services.dashboard.views import (
    actions,
    compare,
    database,
    downloads,
    fleet,
    jobs,
    records,
    session,
    task_numbers,
    tasks,
    trials,
)

ROUTERS = (
    assets.router,
    session.pages,
    session.actions,
    jobs.pages,
    jobs.data,
    tasks.pages,
    task_numbers.data,
    trials.pages,
    trials.data,
    fleet.pages,
    fleet.data,
    records.pages,
    records.data,
    database.data,
    compare.pages,
    compare.data,
    downloads.data,
    actions.router,
)


def install(app: FastAPI) -> None:
    for router in ROUTERS:
        app.include_router(router)
