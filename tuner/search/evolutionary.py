"""Evolutionary search: drafts evolve by the thousand, the best are replayed, the cost model picks among them.

TVM's EvolutionarySearch (src/s_tir/meta_schedule/search_strategy/evolutionary_search.cc) replays every
member of every generation and extracts its features, which takes most of a convolution's tuning time. Here
generations evolve on decisions alone, scored by a draft model; only the most promising are replayed and seen
by the cost model. Random programs, postprocs and features are TVM's. Before anything was measured there is
nothing to evolve towards, so the batch is drawn at random at once.
"""

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

from tuner.cost_model.protocol import CostModel
from tuner.features import extract
from tuner.search.draft import DraftModel, Evolution
from tuner.search.genome import MUTATOR_KINDS, Genome, genome_of
from tuner.search.known import Known, samples_of, scored_traces
from tuner.search.picks import Drawn, Picks, measure_candidate
from tuner.search.random import replay_context, replayed
from tuner.search.replay import Replayer
from tuner.search.sampling import fill
from tuner.search.setup import ENDLESS_TRIALS, SearchSetup, rand_state
from tuner.search.strategy import Result, Suggestion
from tuner.trace import canonical_text

#: The best measured traces that the draft model learns from and drafts descend from.
_PARENTS = 128


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
        """Fills `picks`: the best of what was drafted, and a few at random. Returns its TuneContext."""
        options = self._setup.options
        context = self._context(round_=round_, batch_size=count)
        strategy = context.search_strategy
        fresh = sample(strategy, max(1, round(count * options.random_ratio)))
        breeding = _Breeding(self._setup, self._model, context, round_=round_, visible=visible)
        breeding.add(fresh)
        for _ in range(options.draft_passes):
            breeding.draft(max(1, round(count * options.draft_ratio / options.draft_passes)))
        n_random = max(1, round(count * options.eps_greedy)) if options.eps_greedy and count > 1 else 0
        best = breeding.best_first()
        picks.take(best, at_most=count - n_random)
        picks.take(breeding.drawn(fresh), at_most=n_random)
        picks.take(best)
        fill(picks, known=self._known, draw=lambda: sample(strategy, count))
        return context

    def _context(self, *, round_: int, batch_size: int) -> Any:
        from tvm.s_tir.meta_schedule.database import MemoryDatabase
        from tvm.s_tir.meta_schedule.search_strategy import EvolutionarySearch as TvmEvolutionarySearch

        # Only its way to draw random programs is used.
        strategy = TvmEvolutionarySearch(init_min_unmeasured=1)
        context = self._setup.context(strategy, round_=round_)
        context.pre_tuning(
            ENDLESS_TRIALS, batch_size, list(self._setup.design_spaces), MemoryDatabase(), None
        )
        return context


class _Breeding:
    """One round: replayed programs with the cost model's scores, and the drafts that they lead to."""

    def __init__(
        self, setup: SearchSetup, model: CostModel, context: Any, *, round_: int, visible: Sequence[Result]
    ) -> None:
        self._setup, self._model, self._context = setup, model, context
        self._replay = Replayer(setup.mod, context)
        self._random = Random(rand_state(setup.seed, "drafts", round_))  # noqa: S311 - no secret
        measured = scored_traces(visible, count=_PARENTS)
        self._measured = {
            genome: score for trace, score in measured.items() if (genome := genome_of(trace)) is not None
        }
        #: This round's programs and those that proved to be none, with their scores.
        self._seen: dict[Genome, float] = {}
        self._tried: set[Genome] = set()
        self._drawn: list[tuple[float, Drawn]] = []

    def add(self, schedules: Iterable[Any]) -> None:
        """Score replayed schedules by the cost model."""
        schedules = list(schedules)
        rows = extract(self._context, [measure_candidate(schedule) for schedule in schedules])
        scores = self._model.predict(rows)
        values = [0.0] * len(rows) if scores is None else scores.tolist()
        for schedule, features, score in zip(schedules, rows, values, strict=True):
            self._drawn.append((score, Drawn(schedule, features)))
            genome = genome_of(canonical_text(schedule.trace))
            if genome is not None:
                self._seen[genome] = score

    def draft(self, count: int) -> None:
        """Let drafts evolve, and replay the `count` best that are new."""
        known = {**self._seen, **self._measured}
        if not known:
            return
        options = self._setup.options
        evolution = Evolution(
            population_size=options.population_size,
            genetic_num_iters=options.genetic_num_iters,
            genetic_mutate_prob=options.genetic_mutate_prob,
            mutators=self._mutators(),
        )
        parents = [genome for genome, score in known.items() if score > 0]
        but = known.keys() | self._tried
        ranked = evolution.run(DraftModel(known), parents, but=but, random=self._random)
        self._tried.update(ranked[:count])
        schedules = []
        for genome in ranked[:count]:
            schedule = self._replay(genome)
            if schedule is None:
                self._seen[genome] = 0.0
            else:
                schedules.append(schedule)
        self.add(schedules)

    def best_first(self) -> list[Drawn]:
        return [drawn for _, drawn in sorted(self._drawn, key=lambda pair: -pair[0])]

    def drawn(self, schedules: Sequence[Any]) -> list[Drawn]:
        """Those of `schedules`, in an order drawn at random."""
        wanted = {id(schedule) for schedule in schedules}
        found = [drawn for _, drawn in self._drawn if id(drawn.schedule) in wanted]
        self._random.shuffle(found)
        return found

    def _mutators(self) -> dict[str, float] | None:
        """Weights by kind of sampling instruction, where the space names its mutators."""
        named = (self._setup.space or {}).get("mutators")
        if named is None:
            return None
        weights: dict[str, float] = {}
        for name, weight in named.items():
            kind = MUTATOR_KINDS.get(name)
            if kind is not None:
                weights[kind] = weights.get(kind, 0.0) + float(weight)
        return weights


def sample(strategy: Any, count: int) -> list[Any]:
    """Schedules with decisions drawn at random, after postprocs; programs may repeat."""
    from tvm.s_tir.meta_schedule import _ffi_api

    return list(_ffi_api.SearchStrategyEvolutionarySearchSampleInitPopulation(strategy, count))
