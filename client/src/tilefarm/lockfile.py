"""A lock file: exactly these records, for reproducible builds with no network.

It pins what the service had for the functions of a module on one target and one TVM, misses included: what is
not in it has no record. The same guards as for the service's own answers decide whether a record is used.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilefarm import target as targets
from tilefarm.answers import Answer, Missing, Record, Unanswered, digest, parse_record
from tilefarm.errors import BadAnswerError, LockError, TargetError
from tilefarm.whole import write_whole

_FORMAT = "tilefarm-lock/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """What a lock file says. It answers as the service did."""

    target: Mapping[str, Any]
    #: The name that the target was asked for by, such as a profile; None where it had none.
    profile: str | None
    tvm_version: str
    #: By structural hash; None where the service had no record.
    records: Mapping[str, Record | None]
    #: Names of the functions by structural hash, for people.
    functions: Mapping[str, Sequence[str]]

    def ask(
        self, target: Mapping[str, Any], *, tvm_version: str, workloads: Sequence[str]
    ) -> dict[str, Answer]:
        refusal = self._refusal(target, tvm_version)
        return {shash: refusal or self._answer(shash) for shash in workloads}

    def would_wait(self, target: Mapping[str, Any], *, tvm_version: str, workload: str) -> bool:  # noqa: ARG002 - as of the service
        return False

    def refresh(self) -> None:
        """Nothing: what is pinned stays."""

    def _refusal(self, target: Mapping[str, Any], tvm_version: str) -> Unanswered | None:
        if dict(target) != dict(self.target):
            return Unanswered(reason="the lock file is for another target")
        if tvm_version != self.tvm_version:
            return Unanswered(reason=f"the lock file is for TVM {self.tvm_version}, this is {tvm_version}")
        return None

    def _answer(self, shash: str) -> Answer:
        if shash not in self.records:
            return Unanswered(reason="it is not in the lock file")
        return self.records[shash] or Missing(nearest=None)


def write(path: Path, lock: Lock) -> None:
    """LockError where the file cannot be written."""
    body = {
        "target": dict(lock.target),
        "profile": lock.profile,
        "tvm_version": lock.tvm_version,
        "functions": {shash: list(names) for shash, names in lock.functions.items()},
        "records": {
            shash: None if record is None else record.as_json() for shash, record in lock.records.items()
        },
    }
    text = json.dumps({"format": _FORMAT, "sha256": digest(body), **body}, indent=1, sort_keys=True)
    try:
        write_whole(path, (text + "\n").encode())
    except OSError as error:
        raise LockError(f"{path} cannot be written: {error}") from error


def read(path: Path) -> Lock:
    """LockError where the file is not whole: a build that asked for exact records must not guess."""
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise LockError(f"{path} does not read as a lock file: {error}") from error
    if not isinstance(body, dict) or body.pop("format", None) != _FORMAT:
        raise LockError(f"{path} is no lock file of the form {_FORMAT}")
    if body.pop("sha256", None) != digest(body):
        raise LockError(f"{path} was changed by hand or cut off; make it again with `tilefarm lock`")
    try:
        version = str(body["tvm_version"])
        return Lock(
            target=targets.canonical(body["target"]),
            profile=body.get("profile"),
            tvm_version=version,
            records={
                str(shash): None if found is None else parse_record(found, version)
                for shash, found in body["records"].items()
            },
            functions=body["functions"],
        )
    except (KeyError, AttributeError, TargetError, BadAnswerError) as error:
        raise LockError(f"{path} is no lock file that this client understands: {error}") from error
