"""Opens searches on classroom workloads and plays the device: a latency that follows from the trace."""

import json
import math

from tuner.cost_model.xgb import XGBoostModel
from tuner.module import save_module
from tuner.search.evolutionary import EvolutionarySearch
from tuner.search.known import Known
from tuner.search.options import SearchOptions
from tuner.search.random import RandomSearch
from tuner.search.setup import open_setup
from tuner.search.strategy import Result

SMALL = {"population_size": 32, "genetic_num_iters": 2}


def open_search(kind, mod, target, *, space=None, seed=0, model=None, known=(), pending=(), **options):
    setup = open_setup(
        module=save_module(mod),
        target=target,
        space=space,
        seed=seed,
        options=SearchOptions(**{**SMALL, **options}),
    )
    remembered = Known()
    remembered.tell(known)
    for program_hash in pending:
        remembered.suggest(program_hash=program_hash)
    if kind == "random":
        return RandomSearch(setup, remembered)
    return EvolutionarySearch(setup, remembered, model or XGBoostModel())


def latency_of(trace):
    """Tiles whose innermost factor is 8 are best; each factor of two away from it costs."""
    _, decisions = json.loads(trace)
    tiles = [decision for _, decision in decisions if isinstance(decision, list)]
    return 1e-4 * (1 + sum(abs(math.log2(tile[-1]) - 3) for tile in tiles))


def measured(candidate, *, round_, latency_secs=None, **more):
    return Result(
        trace_hash=candidate.trace_hash,
        program_hash=candidate.program_hash,
        features=candidate.features,
        round=round_,
        latency_secs=latency_of(candidate.trace) if latency_secs is None else latency_secs,
        trace=candidate.trace,
        **more,
    )


def play(search, *, rounds, count=8):
    """Suggest and measure so many rounds; the candidates by round."""
    batches = []
    for round_ in range(rounds):
        batch = search.suggest(count, round_=round_).candidates
        search.update([measured(candidate, round_=round_) for candidate in batch])
        batches.append(batch)
    return batches
