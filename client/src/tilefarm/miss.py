"""A miss, told so that one can act: key, target, nearest hit, and the command that would tune it."""

import json
import logging
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tilefarm import target as targets

_log = logging.getLogger("tilefarm")
#: A budget that a fresh workload is worth.
MAX_TRIALS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """A function that is compiled untuned."""

    function: str
    #: Structural hash of the workload; None where the function has none.
    shash: str | None
    #: Canonical target; None where the asked target has no canonical form.
    target: Mapping[str, Any] | None
    reason: str
    nearest: str | None = None
    #: The command that would tune it.
    command: str | None = None
    #: Whether it is being sent to the farm (on_miss="submit").
    submitted: bool = False

    @property
    def target_key(self) -> str | None:
        return None if self.target is None else targets.key(self.target)

    def __str__(self) -> str:
        target = "?" if self.target is None else json.dumps(dict(self.target), separators=(",", ":"))
        parts = [
            f"no record for {self.function} (workload {self.shash or '?'}) on {target}: {self.reason}",
            f"nearest: {self.nearest or 'none'}",
        ]
        if self.submitted:
            parts.append("it is being sent to the farm")
        elif self.command:
            parts.append(f"to tune it: {self.command}")
        return "; ".join(parts)


OnMiss = Literal["warn", "silent", "submit"] | Callable[[Miss], None]


def tell(miss: Miss, on_miss: OnMiss) -> None:
    if callable(on_miss):
        on_miss(miss)
    elif on_miss != "silent":
        _log.warning("%s", miss)
    else:
        _log.debug("%s", miss)


def submit_command(path: Path | None, target: Mapping[str, Any]) -> str:
    """The command that submits the ready job in `path`; without one, it still names what to submit."""
    if path is not None:
        return f"tilefarm submit {shlex.quote(str(path))}"
    wanted = shlex.quote(json.dumps(dict(target), separators=(",", ":")))
    return f"tilefarm submit MODULE.json --target {wanted} --max-trials {MAX_TRIALS}"
