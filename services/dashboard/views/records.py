"""The records: what is covered, and where each record came from."""

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response

from db.records_table import count_records, coverage, page_of_records
from db.session import reading
from services.api.deps import EngineDep
from services.api.views import gflops
from services.dashboard.page import PageRoute, page
from services.dashboard.viewer import RecordsViewer

pages = APIRouter(include_in_schema=False, route_class=PageRoute)
PAGE_SIZE = 50


@pages.get("/records")
def records_page(
    request: Request,
    who: RecordsViewer,
    engine: EngineDep,
    q: Annotated[str, Query(max_length=120, pattern=r"^[^\x00]*$")] = "",
    page_number: Annotated[int, Query(alias="page", ge=1, le=100_000)] = 1,
) -> Response:
    text = q.strip()
    with reading(engine) as session:
        total = count_records(session, text)
        lines = page_of_records(session, text, limit=PAGE_SIZE, offset=(page_number - 1) * PAGE_SIZE)
        covered = coverage(session)

    def link(**changes: object) -> str:
        return "/records?" + urlencode({name: value for name, value in {"q": q, **changes}.items() if value})

    return page(
        "records.html",
        viewer=who,
        request=request,
        tab="records",
        lines=lines,
        speeds={line.id: gflops(line.flops, line.latency_secs) for line in lines},
        covered=covered,
        text=text,
        total=total,
        page_number=page_number,
        last_page=max(1, -(-total // PAGE_SIZE)),
        link=link,
    )
