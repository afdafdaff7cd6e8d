"""What a search may be told beside its workload, target and space. Names as in TVM's EvolutionarySearch."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from tuner.errors import RequestError

_MIN_POPULATION, _MAX_POPULATION = 64, 512


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """Defaults suit batches of 16 to 32 on one core."""

    #: Candidates per round that the caller means to ask for; it only shapes the default population.
    batch_size: int = 16
    #: None: six times the batch, from 64 to 512 (stock's constant 512 costs seconds a batch on one core).
    population_size: int | None = None
    #: Stock has 4. Two find kernels as good for half of the search's time (docs/benchmarks.md).
    genetic_num_iters: int = 2
    genetic_mutate_prob: float = 0.85
    #: Share of the population that starts from the best known traces.
    init_measured_ratio: float = 0.2
    #: Share of a batch that is drawn at random (one candidate at least, where it is not 0).
    eps_greedy: float = 0.05
    #: More than one makes a search faster, and no longer repeatable.
    num_threads: int = 1
    #: Round n learns from the results of rounds up to n - result_lag: later ones may still be on a device
    #: when a batch is searched, so that a repeatable search must not look at them.
    result_lag: int = 2

    def __post_init__(self) -> None:
        for name, low, high in _BOUNDS:
            value = getattr(self, name)
            if value is None and name == "population_size":
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
                raise RequestError(f"option {name} is not a number from {low} to {high}")

    @property
    def population(self) -> int:
        if self.population_size is not None:
            return self.population_size
        return max(_MIN_POPULATION, min(6 * self.batch_size, _MAX_POPULATION))

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
    ("init_measured_ratio", 0.0, 1.0),
    ("eps_greedy", 0.0, 1.0),
    ("num_threads", 1, 256),
    ("result_lag", 1, 16),
)
