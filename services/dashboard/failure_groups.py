"""Failures that say the same, together. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from db.states import Outcome
from services.dashboard.causes import Cause

_EXAMPLES = 5


@dataclass(slots=True, kw_only=True)
class FailureGroup:
    """Failures of one outcome with one message."""

    outcome: Outcome
    message: str
    count: int = 0
    #: Trials, the newest.
    examples: list[int] = field(default_factory=list)
    workers: set[str] = field(default_factory=set)
    tasks: set[str] = field(default_factory=set)


def grouped(causes: Iterable[Cause]) -> list[FailureGroup]:
    """The most frequent first; of each, its newest examples. Causes come newest first."""
    groups: dict[tuple[Outcome, str], FailureGroup] = {}
    for cause in causes:
        key = (cause.outcome, cause.message)
        group = groups.get(key)
        if group is None:
            group = groups[key] = FailureGroup(outcome=cause.outcome, message=cause.message)
        group.count += 1
        group.tasks.add(cause.task_name)
        if cause.worker_id is not None:
            group.workers.add(cause.worker_id)
        if len(group.examples) < _EXAMPLES:
            group.examples.append(cause.trial_id)
    return sorted(groups.values(), key=lambda group: -group.count)
