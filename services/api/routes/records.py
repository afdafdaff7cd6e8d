"""/v1/records: what was published, for people and exports; and what others bring, in quarantine."""

import json
from typing import Annotated

from fastapi import APIRouter, Query

from db.imports import verifications
from db.records import list_records, read_record
from db.session import reading
from db.states import RecordState
from services.api.auth import RecordsImporter, RecordsReader
from services.api.deps import EngineDep, IntakeDep
from services.api.errors import NotFoundError
from services.api.ids import RowId
from services.api.importing import import_many, import_records
from services.api.paging import PageSize, PageToken, id_place, id_token
from services.api.record_views import record_view
from services.api.schemas_imports import (
    ImportAnswer,
    ImportMany,
    ImportManyAnswer,
    ImportRecords,
    VerifyAnswer,
    VerifyImports,
)
from services.api.schemas_records import RecordDetail, RecordPage
from services.api.verifying import verify_imports

router = APIRouter(prefix="/v1/records", tags=["records"])


@router.get("")
def list_all_records(
    token: RecordsReader,
    engine: EngineDep,
    target_key: Annotated[str | None, Query(pattern=r"^[0-9a-f]{64}$")] = None,
    workload: Annotated[str | None, Query(pattern=r"^[0-9a-f]{16}$")] = None,
    state: Annotated[list[RecordState] | None, Query()] = None,
    page_size: PageSize = 50,
    page_token: PageToken = None,
) -> RecordPage:
    """Records, newest first."""
    del token
    with reading(engine) as session:
        records = list_records(
            session,
            limit=page_size + 1,
            after_id=id_place(page_token),
            target_key=target_key,
            shash=workload,
            states=state or (),
        )
        more, records = len(records) > page_size, records[:page_size]
        verified = verifications(session, [record.id for record in records])
    return RecordPage(
        records=[record_view(record, verified.get(record.id)) for record in records],
        next_page_token=id_token(records[-1].id) if more else None,
    )


@router.get("/{record_id}")
def show_record(record_id: RowId, token: RecordsReader, engine: EngineDep) -> RecordDetail:
    """A record with its module and trace."""
    del token
    with reading(engine) as session:
        record = read_record(session, record_id)
        verified = verifications(session, [record_id])
    if record is None:
        raise NotFoundError("record_not_found", f"there is no record {record_id}")
    view = record_view(record, verified.get(record_id))
    return RecordDetail(**dict(view), trace=json.loads(record.trace), module=record.module)


@router.post(":import")
def import_for_quarantine(
    body: ImportRecords, token: RecordsImporter, engine: EngineDep, intake: IntakeDep
) -> ImportAnswer:
    """Records that others measured, of one workload. They are `quarantined`: no lookup returns them."""
    return import_records(body, token.name, engine=engine, intake=intake)


@router.post(":import-many")
def import_many_for_quarantine(
    body: ImportMany, token: RecordsImporter, engine: EngineDep, intake: IntakeDep
) -> ImportManyAnswer:
    """The same of many workloads at once, in one transaction; what is refused does not keep others out."""
    return import_many(body, token.name, engine=engine, intake=intake)


@router.post(":verify", status_code=201)
def verify_quarantined(
    body: VerifyImports, token: RecordsImporter, engine: EngineDep, intake: IntakeDep
) -> VerifyAnswer:
    """A job that measures quarantined records again, and publishes those that hold and win."""
    return verify_imports(body, token.name, engine=engine, intake=intake)
