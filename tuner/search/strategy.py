"""The seam between the search and everything else: suggest candidates, learn from results.

A strategy is a function of (workload, target, space, seed, round, known results): it is rebuilt from rows at
any time and measures nothing itself. It reads no clock and does no IO.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An unmeasured trace."""

    #: Canonical JSON text of the trace (sorted keys, no spaces).
    trace: str
    #: SHA-256 (hex) of `trace`.
    trace_hash: str
    #: Structural hash (16 hex digits) of the module after postprocs.
    program_hash: str
    #: Packed feature rows, float32 [n_rows, n_features] (tuner/features.py).
    features: bytes
    #: The cost model's score; None where nothing has been learnt yet.
    predicted_score: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What is known of a candidate that was measured, or failed."""

    trace_hash: str
    program_hash: str
    features: bytes
    round: int
    #: Median latency in seconds; None where it failed.
    latency_secs: float | None
    #: True where it was stopped at the cut-off: latency_secs is then a lower bound.
    censored: bool = False
    #: Kept only for the best results, which seed the population.
    trace: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    candidates: tuple[Candidate, ...]
    #: The space has nothing left that is not known.
    exhausted: bool


class SearchStrategy(Protocol):
    """Implemented by the evolutionary search and by random search."""

    def suggest(self, count: int, *, round_: int) -> Suggestion:
        """At most `count` candidates that no earlier suggestion or result holds."""
        ...

    def update(self, results: Sequence[Result]) -> None:
        """Learn. A result may be told twice; the second time changes nothing."""
        ...
