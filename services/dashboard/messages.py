"""One message for many: what differs from trial to trial (addresses, numbers, paths, names) becomes a sign.

Pure. It changes nothing that is stored; a group's examples keep their own words.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from db.failures import Failure
from db.states import Outcome

_MAX_CHARS = 300
_EXAMPLES = 5
#: In this order: a path may hold numbers, an address is one.
_SIGNS = (
    (re.compile(r"\x1b\[[0-9;]*m"), ""),
    (re.compile(r"(?:/[\w.+-]+){2,}(?::\d+)?"), "⟨path⟩"),
    (re.compile(r"\b0x[0-9a-fA-F]+\b"), "⟨address⟩"),
    (re.compile(r"\b[0-9a-f]{12,64}\b"), "⟨hash⟩"),
    (re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?"), "⟨n⟩"),
    (re.compile(r"(?<=[A-Za-z_])\d+\b"), "⟨n⟩"),
    (re.compile(r"\s+"), " "),
)


@dataclass(slots=True, kw_only=True)
class FailureGroup:
    """Failures of one outcome that say the same."""

    outcome: Outcome
    message: str
    count: int = 0
    #: The newest.
    examples: list[Failure] = field(default_factory=list)
    workers: set[str] = field(default_factory=set)
    tasks: set[str] = field(default_factory=set)


def normalised(error: str) -> str:
    """The message's last line that says something: of a Python traceback that is the error itself."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    if not lines:
        return "(no message)"
    text = lines[-1] if lines[0].startswith("Traceback") else lines[0]
    for pattern, sign in _SIGNS:
        text = pattern.sub(sign, text)
    return text.strip()[:_MAX_CHARS]


def grouped(failures: Iterable[Failure]) -> list[FailureGroup]:
    """The most frequent first; of each, its newest examples. Failures come newest first."""
    groups: dict[tuple[Outcome, str], FailureGroup] = {}
    for failure in failures:
        message = normalised(failure.error)
        group = groups.setdefault(
            (failure.outcome, message), FailureGroup(outcome=failure.outcome, message=message)
        )
        group.count += 1
        group.tasks.add(failure.task_name)
        if failure.worker_id is not None:
            group.workers.add(failure.worker_id)
        if len(group.examples) < _EXAMPLES:
            group.examples.append(failure)
    return sorted(groups.values(), key=lambda group: -group.count)
