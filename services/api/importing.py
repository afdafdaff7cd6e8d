"""Records that others measured, from body to quarantined rows: no lookup returns them.

The same walls as for a submission: checks in pure Python, then intake children, which also apply each trace
to the stored module. Whether their times are true nobody knows until they are measured again. All workloads
of a request are written in one transaction.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from db.records import NewImports, quarantine
from db.session import reading, transaction
from db.targets import store_target
from db.workloads import NewWorkload, Workload, same_hash, store_workload
from services.api.errors import ApiError, BadRequestError, InvalidError, UnavailableError
from services.api.import_reading import Brought, Fitting, Reader
from services.api.intake import Intake
from services.api.schemas_imports import (
    ImportAnswer,
    ImportedWorkload,
    ImportMany,
    ImportManyAnswer,
    ImportRecords,
    ImportResult,
    RefusedWorkload,
)

_MAX_RACES = 5
_T = TypeVar("_T")
#: What the sender is told of one workload; everything else ends the request.
_OF_A_WORKLOAD = (InvalidError, BadRequestError)


class _RaceError(Exception):
    """Another transaction stored a workload of the same hash: compare again."""


def import_records(request: ImportRecords, importer: str, *, engine: Engine, intake: Intake) -> ImportAnswer:
    """Raises ApiError where module or target are refused; a refused record is named in the answer."""
    sent = ImportedWorkload(target=request.target, module=request.module, records=request.records)
    origin = {"imported_by": importer, "source": request.source}
    (found,) = _import([sent], request.tvm_version, origin, engine=engine, intake=intake)
    if isinstance(found, ApiError):
        raise found
    return found


def import_many(request: ImportMany, importer: str, *, engine: Engine, intake: Intake) -> ImportManyAnswer:
    """A refused workload is named in the answer, as a refused record is, and the others are taken."""
    origin = {"imported_by": importer, "source": request.source}
    found = _import(request.workloads, request.tvm_version, origin, engine=engine, intake=intake)
    return ImportManyAnswer(workloads=[_result(each) for each in found])


def _result(found: ImportAnswer | ApiError) -> ImportResult:
    if isinstance(found, ImportAnswer):
        return ImportResult(taken=found)
    return ImportResult(refused=RefusedWorkload(code=found.code, detail=found.detail[:600]))


def _import(
    sent: Sequence[ImportedWorkload],
    tvm_version: str,
    origin: dict[str, Any],
    *,
    engine: Engine,
    intake: Intake,
) -> list[ImportAnswer | ApiError]:
    """In the order of `sent`."""
    found: dict[int, ImportAnswer | ApiError] = {}
    left: dict[int, Brought] = {}
    with Reader(intake, engine) as reader:
        for index, each in enumerate(sent):
            _put(left, found, index, partial(reader.brought, each, tvm_version))
        races = 0
        while left:
            fitting: dict[int, Fitting] = {}
            now = _of_different_functions(left)
            stored = _stored(now.values(), engine)
            for index, brought in now.items():
                _put(fitting, found, index, partial(reader.fitting, brought, stored[brought.function.shash]))
            try:
                found |= _write(fitting, origin, engine)
            except _RaceError:
                races += 1
                if races == _MAX_RACES:
                    raise UnavailableError("contended", "others are storing the same workloads") from None
            left = {index: brought for index, brought in left.items() if index not in found}
    return [found[index] for index in range(len(sent))]


def _put(
    good: dict[int, _T], bad: dict[int, ImportAnswer | ApiError], index: int, make: Callable[[], _T]
) -> None:
    try:
        good[index] = make()
    except _OF_A_WORKLOAD as error:
        bad[index] = error


def _of_different_functions(left: dict[int, Brought]) -> dict[int, Brought]:
    """Those that one transaction can store: of functions of one hash that differ in text only the first."""
    texts: dict[str, str] = {}
    return {
        index: brought
        for index, brought in left.items()
        if texts.setdefault(brought.function.shash, brought.function.module) == brought.function.module
    }


def _stored(brought: Iterable[Brought], engine: Engine) -> dict[str, list[Workload]]:
    """By hash."""
    with reading(engine) as session:
        return {
            each.function.shash: same_hash(session, tvm_version=each.tvm_version, shash=each.function.shash)
            for each in brought
        }


def _write(
    fitting: dict[int, Fitting], origin: dict[str, Any], engine: Engine
) -> dict[int, ImportAnswer | ApiError]:
    """Raises _RaceError where another transaction stored a workload of the same hash meanwhile."""
    answers: dict[int, ImportAnswer | ApiError] = {}
    new: dict[str, int] = {}
    target_ids: dict[str, int] = {}
    with transaction(engine) as session:
        for index, each in fitting.items():
            record_ids: list[int | None] = []
            if each.traces:
                workload_id = each.equal.id if each.equal is not None else _new_workload(session, each, new)
                if workload_id is None:
                    raise _RaceError
                target = each.brought.target
                if target.key not in target_ids:
                    target_ids[target.key] = store_target(session, target.canonical, key=target.key).id
                record_ids = _quarantine(session, each, workload_id, target_ids[target.key], origin)
            answers[index] = ImportAnswer(
                workload=each.brought.function.shash,
                target_key=each.brought.target.key,
                quarantined=[record_id for record_id in record_ids if record_id is not None],
                known=record_ids.count(None),
                refused=each.refused,
            )
    return answers


def _new_workload(session: Session, fitting: Fitting, new: dict[str, int]) -> int | None:
    """Stored once for all of a transaction, whose ids of new workloads are `new`, by hash."""
    function = fitting.brought.function
    if function.shash not in new:
        workload = NewWorkload(
            tvm_version=fitting.brought.tvm_version,
            shash=function.shash,
            module=function.module,
            flops=function.flops,
            args=function.args,
            anchor_hash=function.anchor_hash,
        )
        stored = store_workload(session, workload, known=fitting.ordinal)
        if stored is None:
            return None
        new[function.shash] = stored
    return new[function.shash]


def _quarantine(
    session: Session, fitting: Fitting, workload_id: int, target_id: int, origin: dict[str, Any]
) -> list[int | None]:
    imports = NewImports(
        workload_id=workload_id,
        target_id=target_id,
        tvm_version=fitting.brought.tvm_version,
        traces=fitting.traces,
        origin=origin,
    )
    return quarantine(session, imports)
