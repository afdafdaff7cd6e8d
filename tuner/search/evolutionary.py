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
from tuner.search.drawing import Drawing, sketches_of
from tuner.search.genome import MUTATOR_KINDS, Genome, Sketch, genome_of, sketch_of
from tuner.search.known import Known, samples_of, scored_traces
from tuner.search.picks import Drawn, Picks, measure_candidate
from tuner.search.replay import Replayer
from tuner.search.sampling import fill
from tuner.search.setup import ENDLESS_TRIALS, SearchSetup, rand_state
from tuner.search.strategy import Result, Suggestion
from tuner.trace import canonical_text

#: The best measured traces that the draft model learns from and drafts descend from.
_PARENTS = 128
#: A design space's share of what is drawn at random is its best score to this power, or so much at least.
_SHARPNESS, _LEAST_SHARE = 4, 0.05
#: The best score that is assumed of a space where nothing ended in time yet.
_UNKNOWN = 0.7
#: Programs drawn for each candidate that is asked for before anything was measured.
_FIRST_RATIO = 1.5


class EvolutionarySearch:
    """A SearchStrategy."""

    def __init__(self, setup: SearchSetup, known: Known, model: CostModel) -> None:
        self._setup = setup
        self._known = known
        self._model = model
        self._sketches = sketches_of(setup.design_spaces)

    def suggest(self, count: int, *, round_: int) -> Suggestion:
        visible = self._known.visible(up_to_round=round_ - self._setup.options.result_lag)
        self._model.fit(samples_of(visible))
        picks = Picks(count=count, known=self._known)
        context = self._context(round_=round_, batch_size=count)
        breeding = _Breeding(
            self._setup, self._model, context, self._sketches, round_=round_, visible=visible
        )
        if breeding.can_score:
            self._evolve(picks, breeding, count=count, round_=round_)
        else:
            picks.take(Drawn(schedule) for schedule in breeding.draw(count))
        fill(picks, known=self._known, draw=lambda: sample(context.search_strategy, count))
        candidates = picks.candidates(context, self._model)
        for candidate in candidates:
            self._known.suggest(program_hash=candidate.program_hash, trace_hash=candidate.trace_hash)
        return Suggestion(candidates=candidates, exhausted=not candidates)

    def update(self, results: Sequence[Result]) -> None:
        self._known.tell(results)

    def _evolve(self, picks: Picks, breeding: "_Breeding", *, count: int, round_: int) -> None:
        """Fills `picks`: the best of what was drafted, and a few at random."""
        options = self._setup.options
        n_fresh, n_drafts = (
            max(1, round(count * ratio)) for ratio in (options.random_ratio, options.draft_ratio)
        )
        if not breeding.has_measured:  # nothing to evolve towards but an expectation
            n_fresh, n_drafts = round(count * _FIRST_RATIO), n_fresh
        fresh = breeding.draw(n_fresh)
        breeding.add(fresh)
        for _ in range(options.draft_passes):
            breeding.draft(max(1, n_drafts // options.draft_passes))
        n_random = max(1, round(count * options.eps_greedy)) if options.eps_greedy and count > 1 else 0
        if not breeding.has_measured:
            picks.take(breeding.best_of_each(first=round_ * (count // 2)), at_most=count // 2)
        best = breeding.best_first()
        picks.take(best, at_most=picks.missing - n_random)
        picks.take(breeding.drawn(fresh), at_most=n_random)
        picks.take(best)

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
        self,
        setup: SearchSetup,
        model: CostModel,
        context: Any,
        sketches: Sequence[Sketch],
        *,
        round_: int,
        visible: Sequence[Result],
    ) -> None:
        self._setup, self._model, self._context = setup, model, context
        self._replay = Replayer(setup.mod, context)
        self._random = Random(rand_state(setup.seed, "drafts", round_))  # noqa: S311 - no secret
        self._sketches = sketches
        self._drawing = Drawing(sketches, self._replay, self._random)
        measured = scored_traces(visible, count=_PARENTS)
        self._measured = {
            genome: score for trace, score in measured.items() if (genome := genome_of(trace)) is not None
        }
        #: This round's programs and those that proved to be none, with their scores.
        self._seen: dict[Genome, float] = {}
        self._tried: set[Genome] = set()
        self._drawn: list[tuple[float, Drawn]] = []

    @property
    def has_measured(self) -> bool:
        return bool(self._measured)

    @property
    def can_score(self) -> bool:
        return self._model.predict([]) is not None

    def draw(self, count: int) -> list[Any]:
        """Schedules with random decisions, more of them from the design spaces that gave the better times."""
        return self._drawing.draw(count, self._shares())

    def _shares(self) -> dict[Sketch, float]:
        best: dict[Sketch, float] = {}
        for genome, score in self._measured.items():
            best[genome.sketch] = max(score, best.get(genome.sketch, 0.0))
        unknown = 1.0 if not best else _UNKNOWN
        return {
            sketch: max(best.get(sketch, unknown) ** _SHARPNESS, _LEAST_SHARE) for sketch in self._sketches
        }

    def add(self, schedules: Iterable[Any]) -> None:
        """Score replayed schedules by the cost model."""
        schedules = list(schedules)
        rows = extract(self._context, [measure_candidate(schedule) for schedule in schedules])
        scores = self._model.predict(rows)
        values = [0.0] * len(rows) if scores is None else scores.tolist()
        for schedule, features, score in zip(schedules, rows, values, strict=True):
            text = canonical_text(schedule.trace)
            self._drawn.append((score, Drawn(schedule, features, text)))
            genome = genome_of(text)
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

    def best_of_each(self, *, first: int) -> list[Drawn]:
        """The best of each design space, `first` of them moved to the end."""
        best: dict[str, Drawn] = {}
        for drawn in self.best_first():
            best.setdefault(sketch_of(drawn.text or "").text, drawn)
        found = list(best.values())
        at = first % max(len(found), 1)
        return found[at:] + found[:at]

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
