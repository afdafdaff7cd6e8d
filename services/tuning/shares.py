"""Who goes next among owners: the one who had least of a target's devices for their weight. Pure.

Device-seconds fade with time (db/shares.py), so that who was away for a day has no day's credit. Within an
owner priority decides; within a job the gradient rule (tuner/budget.py) has decided which trials there are.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Of one target's devices."""

    #: Device-seconds by owner, faded.
    used_secs: Mapping[str, float] = field(default_factory=dict)
    #: By owner; 1 where none is named.
    weights: Mapping[str, float] = field(default_factory=dict)
    #: What a trial is expected to take of a device.
    trial_secs: float = 0.0

    def standing(self, owner: str, under_way: int) -> float:
        """Seconds for each unit of weight, used and promised; who has least goes first."""
        return (self.used_secs.get(owner, 0.0) + under_way * self.trial_secs) / self.weights.get(owner, 1.0)
