"""What a search may be told beside its workload, target and space. Names as in TVM's EvolutionarySearch."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from tuner.errors import RequestError


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """Defaults suit batches of 16 to 32 on one core."""

    #: Candidates per round that the caller means to ask for.
    batch_size: int = 16
    #: Drafts of a generation, and generations; they cost little, so stock's numbers stand.
    population_size: int = 512
    genetic_num_iters: int = 4
    genetic_mutate_prob: float = 0.85
    #: Programs drawn at random for each candidate asked for: new blood, and what `eps_greedy` picks from.
    random_ratio: float = 0.25
    #: Drafts replayed for each candidate asked for, and in how many passes: each learns from the one before.
    draft_ratio: float = 1.25
    draft_passes: int = 2
    #: Share of a batch that is drawn at random (one candidate at least, where it is not 0).
    eps_greedy: float = 0.05
    #: Share of a batch that goes to neighbours of the best few: coordinate descent on their decisions.
    descent_ratio: float = 0.0
    #: More than one makes a search faster, and no longer repeatable.
    num_threads: int = 1
    #: Round n learns from the results of rounds up to n - result_lag: later ones may still be on a device
    #: when a batch is searched, so that a repeatable search must not look at them.
    result_lag: int = 2

    def __post_init__(self) -> None:
        for name, low, high in _BOUNDS:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
                raise RequestError(f"option {name} is not a number from {low} to {high}")

    @classmethod
    def from_json(cls, obj: Mapping[str, Any]) -> Self:
        """Options that belong to others (the measure policy's) are passed over; null means the default."""
        names = {field.name for field in dataclasses.fields(cls)}
        return cls(**{name: value for name, value in obj.items() if name in names and value is not None})


_BOUNDS = (
    ("batch_size", 1, 1024),
    ("population_size", 1, 4096),
    ("genetic_num_iters", 0, 64),
    ("genetic_mutate_prob", 0.0, 1.0),
    ("random_ratio", 0.0, 16.0),
    ("draft_ratio", 0.0, 64.0),
    ("draft_passes", 1, 8),
    ("eps_greedy", 0.0, 1.0),
    ("descent_ratio", 0.0, 1.0),
    ("num_threads", 1, 256),
    ("result_lag", 1, 16),
)
