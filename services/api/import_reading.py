"""What importers bring, read by intake children: which function it is, and which of its traces apply.

A child reads so many records and is replaced; one that dies over a workload is replaced too, so that nothing
but that workload is refused. No rows are written here.
"""

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

from sqlalchemy import Engine

from checks.graph import GraphError, check_module_json
from checks.trace import TraceError, check_trace
from db.workloads import Workload
from services.api.errors import BadRequestError, InvalidError
from services.api.intake import CrashedError, Intake, IntakeChild, TakenFunction
from services.api.schemas_imports import ImportedWorkload, RefusedRecord
from services.api.targets import NamedTarget, resolve

#: Replays take milliseconds each, and a child has seconds.
_RECORDS_OF_A_CHILD = 256
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Brought:
    """A workload as it was sent, and what it is."""

    sent: ImportedWorkload
    target: NamedTarget
    tvm_version: str
    function: TakenFunction


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitting:
    """What of a workload's records may be stored."""

    brought: Brought
    #: The stored workload that it equals; None where it is new.
    equal: Workload | None
    #: Stored workloads of its hash.
    ordinal: int
    #: Canonical texts and run_secs.
    traces: list[tuple[str, list[float]]]
    refused: list[RefusedRecord]


class Reader:
    """A context manager. Its methods raise InvalidError, BadRequestError and UnavailableError."""

    def __init__(self, intake: Intake, engine: Engine) -> None:
        self._intake = intake
        self._engine = engine
        self._children = ExitStack()
        self._child: IntakeChild | None = None
        #: What the child was asked already, in records.
        self._asked = 0
        self._targets: dict[str, NamedTarget] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._children.close()

    def brought(self, sent: ImportedWorkload, tvm_version: str) -> Brought:
        text = _module_text(sent.module)
        target = self._target(sent.target)
        module = self._ask(lambda child: child.module(text, {}))
        if module.tvm_version != tvm_version:
            raise InvalidError.of("another_tvm", f"this service runs TVM {module.tvm_version}")
        if len(module.functions) != 1:
            raise InvalidError.of("not_one_function", "records are of a module with one PrimFunc")
        return Brought(sent=sent, target=target, tvm_version=tvm_version, function=module.functions[0])

    def fitting(self, brought: Brought, stored: list[Workload]) -> Fitting:
        """`stored` are the workloads of its hash."""
        module = brought.function.module
        equal = next((each for each in stored if each.module == module or self._equal(each, module)), None)
        traces, refused = self._traces(brought.sent, module if equal is None else equal.module)
        return Fitting(brought=brought, equal=equal, ordinal=len(stored), traces=traces, refused=refused)

    def _equal(self, stored: Workload, module: str) -> bool:
        return self._ask(lambda child: child.equal(stored.module, module))

    def _target(self, asked: Any) -> NamedTarget:
        key = json.dumps(asked, sort_keys=True)
        if key not in self._targets:
            self._targets[key] = self._ask(lambda child: resolve(self._engine, asked, child))
        return self._targets[key]

    def _traces(
        self, sent: ImportedWorkload, module: str
    ) -> tuple[list[tuple[str, list[float]]], list[RefusedRecord]]:
        texts: dict[int, str] = {}
        faults: dict[int, str] = {}
        for index, record in enumerate(sent.records):
            try:
                check_trace(record.trace)
            except TraceError as error:
                faults[index] = str(error)
            else:
                texts[index] = json.dumps(record.trace, sort_keys=True, separators=(",", ":"))
        if texts:
            traces = list(texts.values())
            found = self._ask(lambda child: child.applies(module=module, traces=traces), records=len(traces))
            faults |= {index: fault for index, fault in zip(texts, found, strict=True) if fault is not None}
        taken = [(text, sent.records[index].run_secs) for index, text in texts.items() if index not in faults]
        refused = [
            RefusedRecord(index=index, code="bad_trace", detail=faults[index][:600])
            for index in sorted(faults)
        ]
        return taken, refused

    def _ask(self, question: Callable[[IntakeChild], _T], *, records: int = 0) -> _T:
        if self._asked + records > _RECORDS_OF_A_CHILD:
            self._replace()
        was_asked = self._asked > 0
        try:
            return self._asked_once(question, records)
        except CrashedError:
            self._replace()
            if not was_asked:
                raise
            # What others had it do may have used up its seconds or its memory.
            return self._asked_once(question, records)

    def _asked_once(self, question: Callable[[IntakeChild], _T], records: int) -> _T:
        if self._child is None:
            self._child = self._children.enter_context(self._intake.open())
        self._asked += 1 + records
        return question(self._child)

    def _replace(self) -> None:
        self._children.close()
        self._child, self._asked = None, 0


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
