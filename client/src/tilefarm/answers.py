"""Answers to the question "is there a record?", and how those of the service are read.

An answer is a Record, a Missing, or an Unanswered. Where answers come from stands in tilefarm.lookups (the
service, with its cache) and tilefarm.lockfile; whether a record fits the asked module, in tilefarm.applied.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tilefarm import target as targets
from tilefarm.errors import BadAnswerError, TargetError


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The service's best for a workload on exactly one target."""

    record_id: str
    #: Node JSON of the workload's canonical module; the trace finds its blocks by name there.
    module: str
    #: TVM's trace JSON.
    trace: Any
    run_secs: tuple[float, ...]
    tvm_version: str
    #: Changes whenever anything of the record does; empty where the service names none.
    etag: str = ""
    #: Ed25519, base64; None where the service signs nothing. What it is worth, tilefarm.signatures says.
    signature: str | None = None
    #: Its module was found safe to load: now, or before it was kept where only this user writes.
    is_checked: bool = field(default=False, compare=False)
    #: Of module and trace: what it does to a function depends on nothing else. Empty where nobody asks.
    content_sha256: str = field(default="", compare=False)

    def as_json(self) -> dict[str, Any]:
        return {
            "record_id": self.record_id,
            "module": self.module,
            "trace": self.trace,
            "run_secs": list(self.run_secs),
            "tvm_version": self.tvm_version,
            "etag": self.etag,
            "signature": self.signature,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptTexts:
    """Of a record that was kept: its module, and its trace as `trace_text` writes it."""

    module: str
    trace: str
    #: As `Record.is_checked`.
    are_checked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """The service has no record."""

    #: The nearest thing that it has, in words.
    nearest: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unanswered:
    """Nobody knows: the service did not answer, or not sensibly."""

    reason: str


Answer = Record | Missing | Unanswered


class Answering(Protocol):
    """The service, or a lock file."""

    def ask(
        self, target: Mapping[str, Any], *, tvm_version: str, workloads: Sequence[str]
    ) -> dict[str, Answer]:
        """One answer per structural hash; it raises no ServiceError. `target` is canonical."""
        ...

    def would_wait(self, target: Mapping[str, Any], *, tvm_version: str, workload: str) -> bool:
        """Whether answering takes a request, so that others are worth asking along."""
        ...

    def refresh(self) -> None:
        """What was answered until now is confirmed before it is answered again."""
        ...


def question_key(target_key: str, tvm_version: str, shash: str) -> str:
    """SHA-256 (hex) of what a record is found by."""
    return hashlib.sha256(f"{target_key}\n{tvm_version}\n{shash}".encode()).hexdigest()


def batch_etag(target_key: str, tvm_version: str, etags: Mapping[str, str]) -> str:
    """The ETag of a lookup: of each asked workload the record's etag, or "" where there is none.

    The service computes the same, so that what was kept of several lookups is confirmed by one.
    """
    lines = [target_key, tvm_version, *(f"{shash} {etags[shash]}" for shash in sorted(etags))]
    return 'W/"' + hashlib.sha256("\n".join(lines).encode()).hexdigest()[:32] + '"'


def parse(
    body: Mapping[str, Any], target: Mapping[str, Any], tvm_version: str, shashes: Sequence[str]
) -> dict[str, Answer]:
    """The answers of a lookup's body; BadAnswerError where it answers another question than was asked."""
    records, missing = body.get("records"), body.get("missing", [])
    if not isinstance(records, dict) or not isinstance(missing, list):
        raise BadAnswerError("a lookup is answered without records")
    _check_target(body, target)
    answers: dict[str, Answer] = {}
    nearest = {item.get("shash"): item.get("nearest") for item in missing if isinstance(item, dict)}
    for shash in shashes:
        found = records.get(shash)
        if found:
            answers[shash] = parse_record(found[0] if isinstance(found, list) else found, tvm_version)
        else:
            near = nearest.get(shash)
            answers[shash] = Missing(nearest=str(near) if near else None)
    return answers


def parse_record(found: Any, tvm_version: str, *, kept: KeptTexts | None = None) -> Record:
    """BadAnswerError where `found`, but for what was kept apart from it, is no record of this TVM version."""
    if not isinstance(found, dict):
        raise BadAnswerError("a record is no object")
    if kept is not None:
        found = found | {"module": kept.module, "trace": _parsed(kept.trace)}
    module, run_secs = found.get("module"), found.get("run_secs")
    if not isinstance(module, str) or not isinstance(run_secs, list) or "trace" not in found:
        raise BadAnswerError("a record lacks its module, trace or run_secs")
    if found.get("tvm_version") != tvm_version:
        raise BadAnswerError(f"a record is of TVM {found.get('tvm_version')!r}, not {tvm_version}")
    if not run_secs or not all(_is_time(secs) for secs in run_secs):
        raise BadAnswerError("a record's run_secs are no times")
    return Record(
        record_id=str(found.get("record_id")),
        module=module,
        trace=found["trace"],
        run_secs=tuple(float(secs) for secs in run_secs),
        tvm_version=tvm_version,
        etag=str(found.get("etag") or ""),
        signature=str(found["signature"]) if found.get("signature") else None,
        is_checked=kept is not None and kept.are_checked,
        content_sha256=_content_sha256(module, trace_text(found["trace"]) if kept is None else kept.trace),
    )


def trace_text(trace: Any) -> str:
    """Compact, with sorted keys; empty where the trace is none that could be applied."""
    try:
        return json.dumps(trace, sort_keys=True, separators=(",", ":"))
    except (RecursionError, ValueError):
        return ""


def _content_sha256(module: str, trace: str) -> str:
    return hashlib.sha256(f"{module}\n{trace}".encode()).hexdigest() if trace else ""


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadAnswerError("a record's trace is not JSON") from error


def digest(value: Any) -> str:
    """SHA-256 (hex) of compact JSON with sorted keys."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _check_target(body: Mapping[str, Any], target: Mapping[str, Any]) -> None:
    try:
        same = targets.canonical(body.get("target", {})) == dict(target)
    except TargetError as error:
        raise BadAnswerError(f"a lookup is answered for no target: {error}") from error
    if not same or body.get("target_key") != targets.key(target):
        raise BadAnswerError("a lookup is answered for another target than was asked")


def _is_time(secs: Any) -> bool:
    return isinstance(secs, int | float) and not isinstance(secs, bool) and 0 < secs < math.inf
