"""Near hits: records of another target, by rules that the user has named. Off unless asked for, never exact.

What the service says of a near record is checked here: its target differs from the asked one by exactly the
named rule, and a record for another CPU uses no instruction that this one may lack. A near answer is kept in
no cache, and counted apart.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from tilefarm import target as targets
from tilefarm.answers import Record, parse_record
from tilefarm.breaker import CircuitBreaker
from tilefarm.deadline import call_within
from tilefarm.errors import BadAnswerError, NotConfiguredError, ServiceError, TargetError

NearRule = Literal["num-cores", "mcpu-family"]
_FIELDS = {"num-cores": "num-cores", "mcpu-family": "mcpu"}


@dataclass(frozen=True, slots=True, kw_only=True)
class NearHit:
    """A record that matches by a stated rule, not exactly."""

    record: Record
    rule: str
    #: Canonical target that the record, and its signature, are for.
    target: Mapping[str, Any]

    def __str__(self) -> str:
        field = _FIELDS[self.rule]
        return f"record {self.record.record_id} of {field} {self.target.get(field)}, near by {self.rule}"


class NearAsking(Protocol):
    """What is asked of the service; tilefarm.client.Client, or a test's."""

    def lookup_near(
        self, target: Mapping[str, Any], *, tvm_version: str, workloads: Sequence[str], rules: Sequence[str]
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
        self, target: Mapping[str, Any], *, tvm_version: str, workloads: Sequence[str]
    ) -> dict[str, NearHit | None]:
        """By structural hash; raises no ServiceError. A process keeps its answers: a build is one build."""
        key = targets.key(target)
        new = [shash for shash in workloads if (key, tvm_version, shash) not in self._known]
        if new and not self._breaker.remaining_secs():
            try:
                found = self._fetch(target, tvm_version, new)
            except ServiceError:
                self._breaker.failed()
            else:
                self._known |= {(key, tvm_version, shash): found.get(shash) for shash in new}
        return {shash: self._known.get((key, tvm_version, shash)) for shash in workloads}

    def forget(self) -> None:
        self._known.clear()

    def _fetch(self, target: Mapping[str, Any], tvm_version: str, shashes: list[str]) -> dict[str, NearHit]:
        body = call_within(
            lambda: self._service.lookup_near(
                target, tvm_version=tvm_version, workloads=shashes, rules=self._rules
            ),
            timeout_secs=self._timeout_secs,
        )
        near = body.get("near")
        if not isinstance(near, dict):
            raise BadAnswerError("the service knows no near hits")
        return {shash: self._checked(near[shash], target, tvm_version) for shash in shashes if shash in near}

    def _checked(self, found: Any, asked: Mapping[str, Any], tvm_version: str) -> NearHit:
        record = parse_record(found, tvm_version)
        rule = found.get("rule")
        try:
            target = targets.canonical(found.get("target") or {})
        except TargetError as error:
            raise BadAnswerError(f"a near record is of no target: {error}") from error
        if rule not in self._rules or found.get("target_key") != targets.key(target):
            raise BadAnswerError("a near record is near by a rule that was not asked for")
        if dict(asked) != {**target, _FIELDS[rule]: asked.get(_FIELDS[rule])}:
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
