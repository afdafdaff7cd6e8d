"""Near hits: records of another target or function, by rules that the user named. Off by default.

What the service says of a near record is checked here: its target differs from the asked one by exactly the
named rule, and a record for another CPU uses no instruction that this one may lack. That a record of another
function has the same anchor block is for tilefarm.anchor to see. A near answer is kept in no cache, and
counted apart.
"""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

from tilefarm import anchor
from tilefarm import target as targets
from tilefarm.answers import Record, parse_record
from tilefarm.breaker import CircuitBreaker
from tilefarm.errors import BadAnswerError, NotConfiguredError, ServiceError, TargetError

NearRule = Literal["num-cores", "mcpu-family", "anchor-block"]
#: What may differ in the target.
_FIELDS = {"num-cores": "num-cores", "mcpu-family": "mcpu", "anchor-block": None}
ANCHOR_BLOCK: Final = "anchor-block"


@dataclass(frozen=True, slots=True, kw_only=True)
class NearHit:
    """A record that matches by a stated rule, not exactly."""

    record: Record
    rule: str
    #: Canonical target that the record, and its signature, are for.
    target: Mapping[str, Any]

    def __str__(self) -> str:
        field = _FIELDS[self.rule]
        if field is None:
            return f"record {self.record.record_id} of another function, near by {self.rule}"
        return f"record {self.record.record_id} of {field} {self.target.get(field)}, near by {self.rule}"


class NearAsking(Protocol):
    """What is asked of the service; tilefarm.client.Client, or a test's."""

    def ready(self) -> None: ...

    def lookup_near(
        self,
        target: Mapping[str, Any],
        *,
        tvm_version: str,
        workloads: Sequence[str],
        rules: Sequence[str],
        anchors: Mapping[str, str],
    ) -> Mapping[str, Any]: ...


class NearHits:
    def __init__(
        self, service: NearAsking, rules: Sequence[str], *, timeout_secs: float, breaker: CircuitBreaker
    ) -> None:
        """NotConfiguredError where a rule is none."""
        unknown = [rule for rule in rules if rule not in _FIELDS]
        if unknown:
            raise NotConfiguredError(f"near names {unknown[0]!r}; there are {', '.join(_FIELDS)}")
        self._service = service
        self._rules = list(rules)
        self._timeout_secs = timeout_secs
        self._breaker = breaker
        self._known: dict[tuple[str, str, str], NearHit | None] = {}

    def ask(
        self, target: Mapping[str, Any], *, tvm_version: str, workloads: Mapping[str, Any]
    ) -> dict[str, NearHit | None]:
        """By structural hash, as the canonical modules `workloads` are; raises no ServiceError.

        A process keeps its answers: a build is one build.
        """
        key = targets.key(target)
        new = {shash: mod for shash, mod in workloads.items() if (key, tvm_version, shash) not in self._known}
        if new and not self._breaker.remaining_secs():
            anchors = self._anchors(new)
            with contextlib.suppress(ServiceError):
                self._service.ready()
                found = self._breaker.call(
                    lambda: self._fetch(target, tvm_version, list(new), anchors),
                    timeout_secs=self._timeout_secs,
                )
                self._known |= {(key, tvm_version, shash): found.get(shash) for shash in new}
        return {shash: self._known.get((key, tvm_version, shash)) for shash in workloads}

    def forget(self) -> None:
        self._known.clear()

    def _fetch(
        self, target: Mapping[str, Any], tvm_version: str, shashes: list[str], anchors: Mapping[str, str]
    ) -> dict[str, NearHit]:
        body = self._service.lookup_near(
            target, tvm_version=tvm_version, workloads=shashes, rules=self._rules, anchors=anchors
        )
        near = body.get("near")
        if not isinstance(near, dict):
            raise BadAnswerError("the service knows no near hits")
        return {shash: self._checked(near[shash], target, tvm_version) for shash in shashes if shash in near}

    def _anchors(self, workloads: Mapping[str, Any]) -> dict[str, str]:
        if ANCHOR_BLOCK not in self._rules:
            return {}
        found = {shash: anchor.hash_of(mod) for shash, mod in workloads.items()}
        return {shash: hashed for shash, hashed in found.items() if hashed is not None}

    def _checked(self, found: Any, asked: Mapping[str, Any], tvm_version: str) -> NearHit:
        record = parse_record(found, tvm_version)
        rule = found.get("rule")
        try:
            target = targets.canonical(found.get("target") or {})
        except TargetError as error:
            raise BadAnswerError(f"a near record is of no target: {error}") from error
        if rule not in self._rules or found.get("target_key") != targets.key(target):
            raise BadAnswerError("a near record is near by a rule that was not asked for")
        field = _FIELDS[rule]
        if dict(asked) != (target if field is None else {**target, field: asked.get(field)}):
            raise BadAnswerError(f"a near record differs from the asked target by more than {rule}")
        if rule == "mcpu-family" and _tensorizes(record.trace):
            raise BadAnswerError("a near record is made of instructions that another CPU may lack")
        return NearHit(record=record, rule=rule, target=target)


def _tensorizes(trace: Any) -> bool:
    """Whether an instruction of a trace, checked or not, names a tensor intrinsic."""
    try:
        return any(instruction[0] == "Tensorize" for instruction in trace[0])
    except (TypeError, IndexError, KeyError):
        return True
