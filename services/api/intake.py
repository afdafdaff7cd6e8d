"""Asks a disposable child what a submitted module, target or trace is: the second wall.

One child per request, killed at its end. A child that dies has been killed by what the client sent: that is
the client's error, under a stable code. A child that could not be made or did not answer in time is ours.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from types import TracebackType
from typing import Any, Protocol, Self

from sandbox.errors import ChildDied, SandboxError
from sandbox.limits import Limits
from services.api.errors import ErrorEntry, InvalidError, UnavailableError
from services.api.settings import ApiSettings

ENTRY = "tuner.intake:run"
PRELOAD = ("tuner.preload_tvm", "tuner.intake")


class Answering(Protocol):
    """A child: the sandbox's, or a test's."""

    def send(self, obj: Mapping[str, Any], *blobs: bytes) -> None: ...

    def recv(self, timeout_secs: float | None) -> tuple[dict[str, Any], list[bytes]]: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Spawning(Protocol):
    """A fork server: the sandbox's, or a test's."""

    def spawn(self, entry: str, *, limits: Limits) -> Answering: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenFunction:
    """A PrimFunc in canonical form."""

    name: str
    shash: str
    #: Canonical module JSON text.
    module: str
    flops: float
    args: list[dict[str, Any]]
    #: Their names, in order.
    parameters: list[str]
    warnings: list[dict[str, Any]]
    #: The submitted design space in canonical form; None for the default one.
    space: dict[str, Any] | None
    space_hash: str
    #: How often a model calls it.
    weight: float = 1.0
    #: Structural hash of its anchor block alone; None where it has none.
    anchor_hash: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenModule:
    functions: list[TakenFunction]
    tvm_version: str
    #: Parts of a model that are not tuned.
    warnings: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lowering:
    """How a model's tasks are found: as its compile will lower it."""

    pipeline: str
    bound_params: Sequence[str]
    op_names: Sequence[str]


class CrashedError(InvalidError):
    """A child died over what it was asked."""


class Intake:
    """Makes the children; bounds how many there are at once."""

    def __init__(self, server: Spawning, settings: ApiSettings) -> None:
        self._server = server
        self._timeout_secs = settings.intake_timeout_secs
        self._limits = Limits(
            address_space_bytes=settings.intake_memory_bytes,
            cpu_secs=settings.intake_cpu_secs,
            large_stack=True,
        )
        self._model_limits = replace(
            self._limits,
            address_space_bytes=settings.intake_model_memory_bytes,
            cpu_secs=settings.intake_model_cpu_secs,
        )
        self._turns = threading.BoundedSemaphore(settings.intake_children)

    @contextmanager
    def open(self, *, for_model: bool = False) -> Iterator["IntakeChild"]:
        """A child for one request; a model takes longer. UnavailableError where the farm cannot make one."""
        if not self._turns.acquire(timeout=self._timeout_secs):
            raise UnavailableError("intake_busy", "too many submissions are being checked")
        try:
            try:
                child = self._server.spawn(ENTRY, limits=self._model_limits if for_model else self._limits)
            except SandboxError as error:
                raise UnavailableError("intake_unavailable", "no child can check the request") from error
            with child:
                yield IntakeChild(child, timeout_secs=self._timeout_secs)
        finally:
            self._turns.release()


class IntakeChild:
    """One child's operations (tuner/intake.py). Each raises InvalidError or UnavailableError."""

    def __init__(self, child: Answering, *, timeout_secs: float) -> None:
        self._child = child
        self._timeout_secs = timeout_secs

    def module(self, text: str, spaces: Mapping[str, Any]) -> TakenModule:
        return _taken(self._ask({"op": "module", "module": text, "spaces": dict(spaces)}))

    def model(
        self, text: str, spaces: Mapping[str, Any], target: Mapping[str, Any], lowering: Lowering
    ) -> TakenModule:
        """The tasks of a Relax model for a canonical target."""
        request = {"op": "model", "module": text, "spaces": dict(spaces), "target": dict(target)}
        return _taken(self._ask(request | asdict(lowering)))

    def target(self, target: Mapping[str, Any], *, host: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The canonical form; `host` ({"features", "machine"}) must be able to run its code."""
        request = {"op": "target", "target": dict(target), "host": None if host is None else dict(host)}
        canonical: dict[str, Any] = self._ask(request)["canonical"]
        return canonical

    def equal(self, one: str, other: str) -> bool:
        return bool(self._ask({"op": "equal", "a": one, "b": other})["equal"])

    def applies(self, *, module: str, traces: Sequence[str]) -> list[str | None]:
        """Of each trace why it does not apply to the module, or None."""
        faults: list[str | None] = self._ask({"op": "applies", "module": module, "traces": list(traces)})[
            "faults"
        ]
        return faults

    def python(self, *, module: str, trace: str) -> dict[str, str]:
        answer = self._ask({"op": "python", "module": module, "trace": trace})
        return {name: str(answer[name]) for name in ("trace_python", "script", "untuned_script")}

    def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        try:
            self._child.send(request)
            answer, _ = self._child.recv(self._timeout_secs)
        except ChildDied as death:
            detail = f"TVM did not survive the {request['op']} ({death.reason})"
            entry = ErrorEntry(code=f"{request['op']}_crashes_loader", detail=detail)
            raise CrashedError(entry.code, detail, errors=[entry]) from death
        except SandboxError as error:
            raise UnavailableError("intake_unavailable", "the child did not answer") from error
        _raise_errors(answer.get("errors") or [])
        return answer


def _taken(answer: Mapping[str, Any]) -> TakenModule:
    return TakenModule(
        functions=[_function(found) for found in answer["functions"]],
        tvm_version=answer["tvm_version"],
        warnings=answer.get("warnings") or [],
    )


def _function(found: Mapping[str, Any]) -> TakenFunction:
    names = ("name", "shash", "module", "flops", "args", "parameters", "warnings", "space", "space_hash")
    return TakenFunction(
        **{name: found[name] for name in names},
        weight=float(found.get("weight", 1)),
        anchor_hash=found.get("anchor_hash"),
    )


def _raise_errors(errors: list[dict[str, Any]]) -> None:
    if not errors:
        return
    entries = [
        ErrorEntry(code=error["code"], function=error.get("function"), detail=error["detail"])
        for error in errors
    ]
    raise InvalidError(entries[0].code, entries[0].detail, errors=entries)
