"""The published records of a target as stock MetaSchedule's database: one zip, for who has no tilefarm."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse

from db.published import published_ids
from db.records import Record, read_records
from db.session import reading
from services.api.deps import EngineDep
from services.api.errors import NotFoundError
from services.dashboard.stock_database import (
    PROVENANCE,
    RECORDS,
    WORKLOADS,
    provenance_line,
    record_line,
    workload_line,
    zipped,
)
from services.dashboard.viewer import RecordsViewer

data = APIRouter(prefix="/download", include_in_schema=False)
#: Records held at once; a module has some 30 kB of JSON.
_BATCH = 100


@data.get("/database.zip")
def database(
    who: RecordsViewer,
    request: Request,
    engine: EngineDep,
    target_key: Annotated[str, Query(pattern=r"^[0-9a-f]{64}$")],
    tvm_version: Annotated[str, Query(max_length=40, pattern=r"^[\w.+-]+$")],
) -> Response:
    """What lookups for this target and TVM get, a line each, as stock's JSONDatabase reads it."""
    del who
    with reading(engine) as session:
        ids = published_ids(session, target_key=target_key, tvm_version=tvm_version)
        first = read_records(session, ids[:1])
    if not first:
        raise NotFoundError("no_records", "there is no published record of this target and TVM version")
    service = str(request.base_url).rstrip("/")

    def records() -> Iterator[Record]:
        for start in range(0, len(ids), _BATCH):
            with reading(engine) as session:
                found = read_records(session, ids[start : start + _BATCH])
            yield from sorted(found, key=lambda record: record.id)

    files = {
        WORKLOADS: lambda: map(workload_line, records()),
        RECORDS: lambda: (record_line(index, record) for index, record in enumerate(records())),
        PROVENANCE: lambda: (provenance_line(record, service=service) for record in records()),
    }
    headers = {
        "Content-Disposition": f'attachment; filename="{_name(first[0].target)}.zip"',
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
    }
    return StreamingResponse(zipped(files), media_type="application/zip", headers=headers)


def _name(target: Mapping[str, Any]) -> str:
    words = [target.get("mcpu") or target.get("arch") or target["kind"], target.get("num-cores", "")]
    return re.sub(r"[^\w.]+", "-", f"tuned {words[0]} {words[1]}".strip())
