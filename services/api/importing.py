"""Records that others measured, from body to quarantined rows: no lookup returns them.

The same walls as for a submission: checks in pure Python, then an intake child, which also applies each trace
to the stored module. Whether their times are true nobody knows until they are measured again.
"""

import json
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine

from checks.graph import GraphError, check_module_json
from checks.trace import TraceError, check_trace
from db.records import NewImports, quarantine
from db.session import reading, transaction
from db.targets import store_target
from db.workloads import NewWorkload, Workload, same_hash, store_workload
from services.api.errors import BadRequestError, InvalidError, UnavailableError
from services.api.intake import Intake, IntakeChild, TakenFunction
from services.api.schemas_records import ImportAnswer, ImportRecords, RefusedRecord
from services.api.targets import NamedTarget, resolve

_MAX_RACES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Taken:
    """All that the transaction writes."""

    target: NamedTarget
    tvm_version: str
    function: TakenFunction
    #: What the function equals; None where it is new.
    workload: Workload | None
    #: Workloads of its hash.
    ordinal: int
    traces: list[tuple[str, list[float]]]
    origin: dict[str, Any]


def import_records(request: ImportRecords, importer: str, *, engine: Engine, intake: Intake) -> ImportAnswer:
    """Raises ApiError where module or target are refused; a refused record is named in the answer."""
    text = _module_text(request.module)
    with intake.open() as child:
        target = resolve(engine, request.target, child)
        module = child.module(text, {})
        if module.tvm_version != request.tvm_version:
            raise InvalidError.of("another_tvm", f"this service runs TVM {module.tvm_version}")
        if len(module.functions) != 1:
            raise InvalidError.of("not_one_function", "records are of a module with one PrimFunc")
        for _ in range(_MAX_RACES):
            taken, refused = _take(request, importer, target, module.functions[0], engine=engine, child=child)
            written = _write(taken, engine)
            if written is not None:
                return ImportAnswer(
                    workload=taken.function.shash,
                    target_key=target.key,
                    quarantined=[record_id for record_id in written if record_id is not None],
                    known=written.count(None),
                    refused=refused,
                )
    raise UnavailableError("contended", "others are storing the same workload")


def _module_text(module: Any) -> str:
    try:
        obj = json.loads(module) if isinstance(module, str) else module
    except (ValueError, RecursionError):
        raise BadRequestError("malformed_json", "module is a string that is not JSON") from None
    try:
        check_module_json(obj)
    except GraphError as error:
        raise InvalidError.of(error.code, error.detail, function=error.function) from None
    return module if isinstance(module, str) else json.dumps(module)


def _take(
    request: ImportRecords,
    importer: str,
    target: NamedTarget,
    function: TakenFunction,
    *,
    engine: Engine,
    child: IntakeChild,
) -> tuple[_Taken, list[RefusedRecord]]:
    with reading(engine) as session:
        stored = same_hash(session, tvm_version=request.tvm_version, shash=function.shash)
    equal = next(
        (
            workload
            for workload in stored
            if workload.module == function.module or child.equal(workload.module, function.module)
        ),
        None,
    )
    module = function.module if equal is None else equal.module
    traces, refused = _traces(request, module, child)
    taken = _Taken(
        target=target,
        tvm_version=request.tvm_version,
        function=function,
        workload=equal,
        ordinal=len(stored),
        traces=traces,
        origin={"imported_by": importer, "source": request.source},
    )
    return taken, refused


def _traces(
    request: ImportRecords, module: str, child: IntakeChild
) -> tuple[list[tuple[str, list[float]]], list[RefusedRecord]]:
    """Canonical text and run_secs of what applies to the module of the rows; and what does not."""
    texts: dict[int, str] = {}
    faults: dict[int, str] = {}
    for index, record in enumerate(request.records):
        try:
            check_trace(record.trace)
        except TraceError as error:
            faults[index] = str(error)
        else:
            texts[index] = json.dumps(record.trace, sort_keys=True, separators=(",", ":"))
    if texts:
        found = child.applies(module=module, traces=list(texts.values()))
        faults |= {index: fault for index, fault in zip(texts, found, strict=True) if fault is not None}
    taken = [(text, request.records[index].run_secs) for index, text in texts.items() if index not in faults]
    refused = [
        RefusedRecord(index=index, code="bad_trace", detail=faults[index][:600]) for index in sorted(faults)
    ]
    return taken, refused


def _write(taken: _Taken, engine: Engine) -> list[int | None] | None:
    """None where another transaction stored a workload of the same hash meanwhile: compare again."""
    if not taken.traces:
        return []
    with transaction(engine) as session:
        workload_id = taken.workload.id if taken.workload is not None else None
        if workload_id is None:
            new = NewWorkload(
                tvm_version=taken.tvm_version,
                shash=taken.function.shash,
                module=taken.function.module,
                flops=taken.function.flops,
                args=taken.function.args,
                anchor_hash=taken.function.anchor_hash,
            )
            workload_id = store_workload(session, new, known=taken.ordinal)
        if workload_id is None:
            return None
        target = store_target(session, taken.target.canonical, key=taken.target.key)
        return quarantine(
            session,
            NewImports(
                workload_id=workload_id,
                target_id=target.id,
                tvm_version=taken.tvm_version,
                traces=taken.traces,
                origin=taken.origin,
            ),
        )
