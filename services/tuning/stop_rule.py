"""When a task stops before its budget is spent: nothing worth its trials is left to gain. Pure.

Only a job that asks for it stops so. What its tasks leave unspent was never charged: the job's other tasks
may have it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from db.rounds import RoundResult

#: A fall of the best latency by less is noise, and no improvement.
_GAIN = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRule:
    #: Trials without an improvement.
    patience: int | None
    #: Of the best possible latency over the best measured one.
    peak_share: float | None

    @property
    def is_set(self) -> bool:
        return self.patience is not None or self.peak_share is not None


def stop_rule(options: Mapping[str, Any]) -> StopRule:
    """Of a job, from its options as they were validated."""
    return StopRule(patience=options.get("patience"), peak_share=options.get("peak_share"))


def why_stop(
    rule: StopRule,
    rounds: Mapping[int, RoundResult],
    *,
    own_trials: int,
    least_secs: float | None,
    least_says: str = "",
) -> str | None:
    """The reason, for people; None where the task goes on.

    `rounds`: the search's finished rounds by number. `own_trials`: charged to the task itself, which may
    have joined a search late. `least_secs`: what the device's measured roofline allows, where it is known.
    """
    known = [result.latency_secs for result in rounds.values() if result.latency_secs is not None]
    if not known:
        return None
    best_secs = min(known)
    if rule.peak_share is not None and least_secs is not None and least_secs >= rule.peak_share * best_secs:
        return f"at {least_secs / best_secs:.0%} of what {least_says} allow"
    if rule.patience is not None:
        vain = min(own_trials, _trials_without_gain(rounds, best_secs))
        if vain >= rule.patience:
            return f"no improvement of {_GAIN:.0%} in {vain} trials"
    return None


def _trials_without_gain(rounds: Mapping[int, RoundResult], best_secs: float) -> int:
    """Closed in the rounds after the first that came as near to the best as makes no difference."""
    good_secs = best_secs / (1.0 - _GAIN)
    reached = min(
        number
        for number, result in rounds.items()
        if result.latency_secs is not None and result.latency_secs <= good_secs
    )
    return sum(result.closed for number, result in rounds.items() if number > reached)
