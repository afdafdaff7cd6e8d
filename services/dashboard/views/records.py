"""The records: what is covered, where each record came from, and what lookups asked for."""

import dataclasses
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response
from sqlalchemy.orm import Session

from db.coverage import CoveredTarget, coverage_lines, covered_targets
from db.lookup_traffic import HourOfTraffic, Traffic, most_missed, traffic_by_hour
from db.published import Published, published_targets
from db.records_table import count_records, newest_ids, page_of_records
from db.session import reading
from services.api.deps import EngineDep
from services.api.views import gflops
from services.dashboard.page import PageRoute, page
from services.dashboard.remembered import Kept, KeptDep
from services.dashboard.tables import Form, table
from services.dashboard.viewer import RecordsViewer
from services.dashboard.views.downloads import BATCH

pages = APIRouter(include_in_schema=False, route_class=PageRoute)
data = APIRouter(prefix="/download", include_in_schema=False)
PAGE_SIZE = 25
_COVERED = 12
_MISSED = 10
_TRAFFIC_HOURS = 48
_WHOLE_SECS = 5.0
_TRAFFIC_SECS = _TRAFFIC_HOURS * 3600.0
_Text = Annotated[str, Query(max_length=120, pattern=r"^[^\x00]*$")]


@pages.get("/records")
def records_page(
    request: Request,
    who: RecordsViewer,
    engine: EngineDep,
    kept: KeptDep,
    q: _Text = "",
    which: Annotated[str, Query(pattern="^(current|all)$")] = "current",
    page_number: Annotated[int, Query(alias="page", ge=1, le=100_000)] = 1,
    covered_page: Annotated[int, Query(alias="covered", ge=1, le=100_000)] = 1,
) -> Response:
    text, current = q.strip(), which == "current"
    with reading(engine) as session:
        whole = _whole(session, kept, text, current=current)
        offset = (page_number - 1) * PAGE_SIZE
        lines = page_of_records(session, text, limit=PAGE_SIZE, offset=offset, current=current)
        offset = (covered_page - 1) * _COVERED
        covered = coverage_lines(session, text, limit=_COVERED + 1, offset=offset)
        hours = traffic_by_hour(session, within_secs=_TRAFFIC_SECS)
        missed = most_missed(session, limit=_MISSED)

    def link(**changes: object) -> str:
        asked = {"q": q, "which": "" if current else which, **changes}
        return "/records?" + urlencode({name: value for name, value in asked.items() if value})

    return page(
        "records.html",
        viewer=who,
        request=request,
        tab="records",
        lines=lines,
        speeds={line.id: gflops(line.flops, line.latency_secs) for line in lines},
        targets=whole.targets,
        covered=covered[:_COVERED],
        covered_page=covered_page,
        covered_more=len(covered) > _COVERED,
        traffic=_sum(hours),
        hours=_placed(hours),
        busiest=max((each.traffic.asked for each in hours), default=0),
        missed=missed,
        published=whole.published,
        text=text,
        which=which,
        total=whole.records,
        page_number=page_number,
        last_page=max(1, -(-whole.records // PAGE_SIZE)),
        link=link,
    )


@data.get("/records.{form}")
def records_table(
    form: Form,
    who: RecordsViewer,
    engine: EngineDep,
    q: _Text = "",
    which: Annotated[str, Query(pattern="^(current|all)$")] = "current",
) -> Response:
    del who
    columns = (
        *("id", "state", "name", "operations", "shash", "args", "target", "tvm_version", "latency_secs"),
        *("flops", "device_class", "trial_id", "created_at"),
    )

    def rows() -> Iterator[Mapping[str, Any]]:
        offset = 0
        # A record that comes meanwhile moves the others on.
        told: set[int] = set()
        while True:
            with reading(engine) as session:
                lines = page_of_records(
                    session, q.strip(), limit=BATCH, offset=offset, current=which == "current"
                )
            yield from (
                {name: getattr(line, name) for name in columns} for line in lines if line.id not in told
            )
            told.update(line.id for line in lines)
            if len(lines) < BATCH:
                return
            offset += BATCH

    return table("records", form, columns, rows())


@data.get("/coverage.{form}")
def coverage_table(form: Form, who: RecordsViewer, engine: EngineDep, q: _Text = "") -> Response:
    """One row for each workload and target that jobs asked for."""
    del who
    with reading(engine) as session:
        targets = {target.key: target.canonical for target in covered_targets(session)}
        lines = coverage_lines(session, q.strip(), limit=100_000)
    columns = (
        *("shash", "name", "operations", "args", "target"),
        *("latency_secs", "record_id", "trial_id", "tuning"),
    )
    rows = (
        {name: getattr(line, name) for name in ("shash", "name", "operations", "args")}
        | {"target": targets[key]}
        | dataclasses.asdict(cell)
        for line in lines
        for key, cell in line.cells.items()
    )
    return table("coverage", form, columns, rows)


@data.get("/lookups.{form}")
def lookups_table(form: Form, who: RecordsViewer, engine: EngineDep) -> Response:
    """By hour, as far back as the page shows."""
    del who
    with reading(engine) as session:
        hours = traffic_by_hour(session, within_secs=_TRAFFIC_SECS)
    rows = ({"hour": each.hour} | dataclasses.asdict(each.traffic) for each in hours)
    return table("lookups", form, ("hour", "hits", "near", "misses"), rows)


@data.get("/misses.{form}")
def misses_table(form: Form, who: RecordsViewer, engine: EngineDep) -> Response:
    del who
    with reading(engine) as session:
        missed = most_missed(session, limit=1000)
    columns = ("shash", "name", "args", "target", "tvm_version", "count", "age_secs", "tuning")
    rows = (
        {"shash": each.key.shash, "tvm_version": each.key.tvm_version}
        | {name: getattr(each, name) for name in columns if name not in {"shash", "tvm_version"}}
        for each in missed
    )
    return table("misses", form, columns, rows)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Whole:
    """What takes reading every record."""

    records: int
    targets: list[CoveredTarget]
    published: list[Published]


def _whole(session: Session, kept: Kept, text: str, *, current: bool) -> _Whole:
    """Read where a record or a search came since; what changed otherwise shows after some seconds."""

    def read(_before: _Whole | None) -> _Whole:
        return _Whole(
            records=count_records(session, text, current=current),
            targets=covered_targets(session),
            published=published_targets(session),
        )

    mark = (newest_ids(session), time.monotonic() // _WHOLE_SECS)
    return kept.drawn.get(("records", text, current), mark, read)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _PlacedHour:
    #: From the left; the present hour is the last.
    index: int
    hour: datetime
    traffic: Traffic


def _placed(hours: list[HourOfTraffic]) -> list[_PlacedHour]:
    """Every hour of the chart, those without a lookup too."""
    known = {each.hour: each.traffic for each in hours}
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    last = max(now, *known) if known else now
    first = last - timedelta(hours=_TRAFFIC_HOURS - 1)
    every = (first + timedelta(hours=n) for n in range(_TRAFFIC_HOURS))
    nothing = Traffic(hits=0, near=0, misses=0)
    return [_PlacedHour(index=n, hour=hour, traffic=known.get(hour, nothing)) for n, hour in enumerate(every)]


def _sum(hours: list[HourOfTraffic]) -> Traffic:
    return Traffic(
        hits=sum(each.traffic.hits for each in hours),
        near=sum(each.traffic.near for each in hours),
        misses=sum(each.traffic.misses for each in hours),
    )
