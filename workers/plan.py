"""Which shots a chunk's trials need, and what their results say together. Pure: no IO, no clock.

A search or baseline trial is one shot, and its run_secs are that shot's repeats. A confirmation is several
fresh processes of candidate and incumbent, interleaved; each side's run_secs are the medians of its
processes, because repeats inside one process know nothing of how processes differ.
"""

import statistics
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from db.states import Outcome, Purpose
from workers.holding import Attempt
from workers.messages import MAX_ERROR_CHARS, MeasureChunk, TrialOrder
from workers.shot import ShotResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One shot: of a trial's candidate or, in a confirmation, of the incumbent."""

    order: TrialOrder
    #: Packed.
    trace: str
    incumbent: bool = False
    #: The trial's first, last shot.
    first: bool = True
    last: bool = True

    @property
    def attempt(self) -> Attempt:
        return Attempt(self.order.trial_id, self.order.attempt)


def plan(chunk: MeasureChunk) -> Iterator[Planned]:
    """The shots in the order in which they are measured."""
    for order in chunk.trials:
        if order.purpose == Purpose.CONFIRM:
            yield from _confirmation(order, chunk.policy.confirm_processes)
        else:
            yield Planned(order=order, trace=order.trace)


@dataclass(slots=True, kw_only=True)
class Tally:
    """The results of a trial's shots so far."""

    candidate: list[ShotResult] = field(default_factory=list)
    incumbent: list[ShotResult] = field(default_factory=list)
    confirms: bool = False

    @property
    def failure(self) -> ShotResult | None:
        return next((result for result in self.candidate if result.outcome != Outcome.OK), None)

    def add(self, planned: Planned, result: ShotResult) -> None:
        self.confirms = planned.order.purpose == Purpose.CONFIRM
        (self.incumbent if planned.incumbent else self.candidate).append(result)

    def conclude(self) -> tuple[ShotResult, tuple[float, ...] | None]:
        """The trial's result, and the incumbent's run_secs where it ran without fault."""
        stages: Counter[str] = Counter()
        for result in (*self.candidate, *self.incumbent):
            stages.update(result.stage_secs)
        chosen = self.failure
        if chosen is None and not self.candidate:
            chosen = ShotResult(outcome=Outcome.RUN_ERROR, error="no process of it was measured")
        if chosen is None:
            chosen = self.candidate[0]
            if self.confirms:
                chosen = replace(chosen, run_secs=_medians(self.candidate))
        bad = next((result for result in self.incumbent if result.outcome != Outcome.OK), None)
        if bad is not None and chosen.error is None:
            chosen = replace(chosen, error=f"incumbent: {bad.outcome}: {bad.error}"[:MAX_ERROR_CHARS])
        kept = _medians(self.incumbent) if self.incumbent and bad is None else None
        return replace(chosen, stage_secs=dict(stages)), kept


def _confirmation(order: TrialOrder, processes: int) -> Iterator[Planned]:
    sides = [(order.trace, False)]
    if order.incumbent_trace is not None:
        sides.append((order.incumbent_trace, True))
    shots = [side for _ in range(max(1, processes)) for side in sides]
    for number, (trace, incumbent) in enumerate(shots):
        yield Planned(
            order=order,
            trace=trace,
            incumbent=incumbent,
            first=number == 0,
            last=number == len(shots) - 1,
        )


def _medians(results: list[ShotResult]) -> tuple[float, ...]:
    return tuple(statistics.median(result.run_secs) for result in results if result.run_secs)
