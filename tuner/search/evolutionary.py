"""Evolutionary search: TVM's operators, driven round by round, over a cost model fitted on rows.

Sampling, mutation, postprocs and selection are TVM's EvolutionarySearch
(src/s_tir/meta_schedule/search_strategy/evolutionary_search.cc). Driven from here are: what a round starts
from, what is known already (TVM's own record of it dies with the strategy), and when a space is exhausted.
Before anything was measured there is nothing to evolve towards, so the batch is drawn at random at once.
"""

import random
from collections.abc import Sequence
from typing import Any

from tuner.cost_model.adapter import tvm_cost_model
from tuner.cost_model.protocol import CostModel
from tuner.errors import TraceError
from tuner.search.known import Known, best_traces, samples_of
from tuner.search.picks import Picks
from tuner.search.random import replay_context, replayed
from tuner.search.sampling import fill
from tuner.search.setup import ENDLESS_TRIALS, SearchSetup, rand_state
from tuner.search.strategy import Result, Suggestion
from tuner.trace import apply_trace


class EvolutionarySearch:
    """A SearchStrategy."""

    def __init__(self, setup: SearchSetup, known: Known, model: CostModel) -> None:
        self._setup = setup
        self._known = known
        self._model = model

    def suggest(self, count: int, *, round_: int) -> Suggestion:
        visible = self._known.visible(up_to_round=round_ - self._setup.options.result_lag)
        samples = samples_of(visible)
        self._model.fit(samples)
        picks = Picks(count=count, known=self._known)
        if samples:
            context = self._evolve(picks, count=count, round_=round_, visible=visible)
        else:
            context = replay_context(self._setup, round_=round_, count=count)
            fill(picks, known=self._known, draw=lambda: replayed(context))
        candidates = picks.candidates(context, self._model)
        for candidate in candidates:
            self._known.suggest(program_hash=candidate.program_hash, trace_hash=candidate.trace_hash)
        return Suggestion(candidates=candidates, exhausted=not candidates)

    def update(self, results: Sequence[Result]) -> None:
        self._known.tell(results)

    def _evolve(self, picks: Picks, *, count: int, round_: int, visible: Sequence[Result]) -> Any:
        """Fills `picks`: the best of an evolved population, and a few at random. Returns its TuneContext."""
        options = self._setup.options
        context = self._context(round_=round_, batch_size=count)
        strategy = context.search_strategy
        seeds = self._seeds(visible, count=int(options.population * options.init_measured_ratio))
        fresh = sample(strategy, max(1, options.population - len(seeds)))
        shuffled = fresh[:]
        random.Random(rand_state(self._setup.seed, "greedy", round_)).shuffle(shuffled)  # noqa: S311 - no secret
        n_random = max(1, round(count * options.eps_greedy)) if options.eps_greedy and count > 1 else 0
        if seeds or fresh:
            # The known programs may fill the head of the list: ask for so many more.
            evolved = evolve(strategy, [*seeds, *fresh], count + self._known.n_programs)
            picks.take(evolved, at_most=count - n_random)
            picks.take(shuffled, at_most=n_random)
            picks.take(evolved)
        fill(picks, known=self._known, draw=lambda: sample(strategy, count))
        return context

    def _context(self, *, round_: int, batch_size: int) -> Any:
        from tvm.s_tir.meta_schedule.database import MemoryDatabase
        from tvm.s_tir.meta_schedule.search_strategy import EvolutionarySearch as TvmEvolutionarySearch

        options = self._setup.options
        strategy = TvmEvolutionarySearch(
            population_size=options.population,
            init_measured_ratio=options.init_measured_ratio,
            init_min_unmeasured=1,
            genetic_num_iters=options.genetic_num_iters,
            genetic_mutate_prob=options.genetic_mutate_prob,
            eps_greedy=options.eps_greedy,
        )
        context = self._setup.context(strategy, round_=round_)
        model = tvm_cost_model(self._model)
        context.pre_tuning(
            ENDLESS_TRIALS, batch_size, list(self._setup.design_spaces), MemoryDatabase(), model
        )
        return context

    def _seeds(self, visible: Sequence[Result], *, count: int) -> list[Any]:
        """Schedules of the best known traces; one that does not fit is left out."""
        schedules = []
        for trace in best_traces(visible, count=count):
            try:
                schedules.append(apply_trace(trace, self._setup.mod))
            except TraceError:
                continue
        return schedules


def sample(strategy: Any, count: int) -> list[Any]:
    """Schedules with decisions drawn at random, after postprocs; programs may repeat."""
    from tvm.s_tir.meta_schedule import _ffi_api

    return list(_ffi_api.SearchStrategyEvolutionarySearchSampleInitPopulation(strategy, count))


def evolve(strategy: Any, population: Sequence[Any], count: int) -> list[Any]:
    """The `count` best distinct schedules met while the population evolves, the best first."""
    from tvm.s_tir.meta_schedule import _ffi_api

    return list(
        _ffi_api.SearchStrategyEvolutionarySearchEvolveWithCostModel(strategy, list(population), count)
    )
