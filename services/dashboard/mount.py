"""Puts the dashboard into the API's app: pages for people, on the addresses that `/v1` leaves free."""

from fastapi import FastAPI, Request, Response

from services.api.errors import NotFoundError, problem_response
from services.dashboard import assets
from services.dashboard.page import error_page
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
    app.add_exception_handler(404, _no_such_path)


def _no_such_path(request: Request, _error: Exception) -> Response:
    """A person who mistypes an address is told on a page; a program, as everywhere, by problem+json."""
    error = NotFoundError("not_found", "there is no such path")
    person = "text/html" in request.headers.get("accept", "")
    return error_page(request, error) if person else problem_response(error)
