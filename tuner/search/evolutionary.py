"""Evolutionary search: drafts evolve by the thousand, the best are replayed, the cost model picks among them.

TVM's EvolutionarySearch (src/s_tir/meta_schedule/search_strategy/evolutionary_search.cc) replays every
member of every generation and extracts its features, which takes most of a convolution's tuning time. Here
generations evolve on decisions alone, scored by a draft model; only the most promising are replayed and seen
by the cost model. Postprocs and features are TVM's. Before anything was measured there is nothing to evolve
towards, so the batch is drawn at random at once.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from random import Random

import numpy as np

from tuner.cost_model.protocol import CostModel
from tuner.search.draft import DraftModel, Evolution
from tuner.search.drawing import Drawing, Space, spaces_of
from tuner.search.genome import MUTATOR_KINDS, Genome, Sketch, genome_of, neighbours
from tuner.search.known import Known, samples_of, scored_traces
from tuner.search.picks import Drawn, Picks, rows_of
from tuner.search.programs import Programs, Refused
from tuner.search.replay import Replayer
from tuner.search.sampling import fill
from tuner.search.setup import SearchSetup, rand_state
from tuner.search.spread import spread
from tuner.search.strategy import Result, Suggestion

#: The best measured traces that the draft model learns from and drafts descend from.
_PARENTS = 128
#: A design space's share of what is drawn at random is its best score to this power, or so much at least.
_SHARPNESS, _LEAST_SHARE = 4, 0.05
#: The best score that is assumed of a space where nothing ended in time yet.
_UNKNOWN = 0.7
#: So many of the best measured have their neighbours looked at; of these so many for each that is wanted.
_DESCENDED, _LOOKED_AT = 3, 2
#: Programs drawn for each candidate of a batch, for all rounds together before anything was measured.
_FIRST_RATIO = 4
#: Drafts for each that is replayed, the best of all, among which different ones are chosen.
_LIKELY = 16
#: Of so many candidates one is of a design space that no batch has had a program of, while there is one; half
#: before there are results. Expectations of different design spaces are less sure than those of one.
_FOR_EACH_UNSEEN = 8
#: What a program is worth more, in scores (the best known has 1), that shares no decision with those picked.
_REWARD = 0.35


class EvolutionarySearch:
    """A SearchStrategy."""

    def __init__(self, setup: SearchSetup, known: Known, model: CostModel) -> None:
        self._setup = setup
        self._known = known
        self._model = model
        self._spaces = spaces_of(setup.design_spaces)
        self._replay = Replayer(setup.mod, setup.context)
        self._programs = Programs(self._replay, known)
        self._first: list[Drawn] | None = None
        #: The model has an expectation before anything was measured. Else the first batches are drawn at
        #: random, from each design space in its turn.
        self._expects = model.predict([]) is not None

    def suggest(self, count: int, *, round_: int) -> Suggestion:
        visible = self._known.visible(up_to_round=round_ - self._setup.options.result_lag)
        self._model.fit(samples_of(visible))
        picks = Picks(count=count, known=self._known)
        breeding = _Breeding(
            self._setup, self._model, self._programs, self._spaces, round_=round_, visible=visible
        )
        if breeding.can_score:
            self._evolve(picks, breeding, count=count, round_=round_)
        else:
            picks.take(breeding.draw(count))
        fill(picks, known=self._known, drawing=breeding.drawing)
        candidates = picks.candidates(self._setup.context, self._model)
        for candidate in candidates:
            self._known.suggest(program_hash=candidate.program_hash, trace_hash=candidate.trace_hash)
        return Suggestion(candidates=candidates, exhausted=not candidates)

    def update(self, results: Sequence[Result]) -> None:
        self._known.tell(results)

    def _drawn_first(self) -> list[Drawn]:
        """What the rounds choose among that come before the first result: the same, whichever asks first.

        Some of them may be known by now.
        """
        if self._first is None:
            random = Random(rand_state(self._setup.seed, "first"))  # noqa: S311 - no secret
            drawing = Drawing(self._spaces, Programs(self._replay, Known()), random)
            drawn = drawing.draw(_FIRST_RATIO * self._setup.options.batch_size)
            rows = rows_of(self._setup.context, drawn)
            pairs = zip(drawn, rows, strict=True)
            self._first = [dataclasses.replace(program, rows=features) for program, features in pairs]
        return self._first

    def _unseen(self, *, round_: int) -> list[Drawn]:
        """What was drawn first of design spaces that no batch has had a program of."""
        if not self._expects or round_ > len(self._spaces):  # each round took one
            self._first = None
            return []
        first = self._drawn_first()
        seen = {drawn.sketch for drawn in first if self._known.has_program(drawn.program_hash)}
        return [drawn for drawn in first if drawn.sketch not in seen]

    def _evolve(self, picks: Picks, breeding: "_Breeding", *, count: int, round_: int) -> None:
        """Fills `picks`: the best of what was drafted, and a few at random."""
        options = self._setup.options
        n_fresh, n_drafts = (
            max(1, round(count * ratio)) for ratio in (options.random_ratio, options.draft_ratio)
        )
        if not breeding.has_measured:  # nothing to evolve towards but an expectation
            first = self._drawn_first()
            fresh = [drawn for drawn in first if not self._known.has_program(drawn.program_hash)]
            n_unseen, n_drafts = count // 2, 0
        else:
            fresh, n_unseen = breeding.draw(n_fresh), max(1, count // _FOR_EACH_UNSEEN)
        breeding.add(fresh)
        for _ in range(options.draft_passes if n_drafts else 0):
            breeding.draft(max(1, n_drafts // options.draft_passes))
        n_random = max(1, round(count * options.eps_greedy)) if options.eps_greedy and count > 1 else 0
        picks.take(breeding.best_of_each(self._unseen(round_=round_)), at_most=n_unseen)
        picks.take(breeding.descend(round(count * options.descent_ratio)))
        best = breeding.spread()
        picks.take(best, at_most=picks.missing - n_random)
        picks.take(breeding.shuffled(fresh), at_most=n_random)
        picks.take(best)


class _Breeding:
    """One round: replayed programs with the cost model's scores, and the drafts that they lead to."""

    def __init__(
        self,
        setup: SearchSetup,
        model: CostModel,
        programs: Programs,
        spaces: Sequence[Space],
        *,
        round_: int,
        visible: Sequence[Result],
    ) -> None:
        self._setup, self._model, self._programs, self._spaces = setup, model, programs, spaces
        self._random = Random(rand_state(setup.seed, "drafts", round_))  # noqa: S311 - no secret
        self.drawing = Drawing(spaces, programs, self._random)
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

    def draw(self, count: int) -> list[Drawn]:
        """New programs at random, more of them from the design spaces that gave the better times."""
        return self.drawing.draw(count, self._shares())

    def _shares(self) -> dict[Sketch, float]:
        best: dict[Sketch, float] = {}
        for genome, score in self._measured.items():
            best[genome.sketch] = max(score, best.get(genome.sketch, 0.0))
        unknown = 1.0 if not best else _UNKNOWN
        sketches = (space.sketch for space in self._spaces)
        return {sketch: max(best.get(sketch, unknown) ** _SHARPNESS, _LEAST_SHARE) for sketch in sketches}

    def add(self, programs: Iterable[Drawn]) -> None:
        """Score them by the cost model."""
        programs = list(programs)
        rows = rows_of(self._setup.context, programs)
        scores = self._model.predict(rows)
        values = [0.0] * len(rows) if scores is None else scores.tolist()
        for drawn, features, score in zip(programs, rows, values, strict=True):
            self._drawn.append((score, dataclasses.replace(drawn, rows=features)))
            if drawn.genome is not None:
                self._seen[drawn.genome] = score

    def best_of_each(self, programs: Sequence[Drawn]) -> list[Drawn]:
        """Of each design space the best by the cost model, the best first; their rows are known."""
        scores = self._model.predict(rows_of(self._setup.context, programs))
        order = range(len(programs)) if scores is None else np.argsort(-scores, kind="stable").tolist()
        best: dict[Sketch, Drawn] = {}
        for place in order:
            best.setdefault(programs[place].sketch, programs[place])
        return list(best.values())

    def draft(self, count: int) -> None:
        """Let drafts evolve, and replay the best, different ones first, until `count` were none or new."""
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
        wanted = _LIKELY * count
        best = evolution.run(DraftModel(known), parents, but=but, random=self._random, wanted=wanted)[:wanted]
        self._replayed((best[place][1] for place in spread(best, reward=_REWARD)), count)

    def descend(self, count: int) -> list[Drawn]:
        """At most `count` new neighbours of the best measured few, those of the best model's score first."""
        if not count:
            return []
        best = sorted(self._measured, key=lambda genome: -self._measured[genome])[:_DESCENDED]
        found = dict.fromkeys(near for genome in best for near in neighbours(genome))
        near = [genome for genome in found if genome not in self._measured]
        if not near:
            return []
        scores = DraftModel({**self._seen, **self._measured}).predict(near)
        ranked = [near[place] for place in np.argsort(-scores, kind="stable")]
        wanted = set(ranked[: _LOOKED_AT * count])
        self._replayed([genome for genome in ranked if genome in wanted and genome not in self._seen], count)
        return [drawn for drawn in self.best_first() if drawn.genome in wanted][:count]

    def _replayed(self, ranked: Iterable[Genome], count: int) -> None:
        """Replay and score them until `count` were none or new."""
        found: list[Drawn] = []
        refused = 0
        for genome in ranked:
            if len(found) + refused >= count:
                break
            self._tried.add(genome)
            program = self._programs.new(genome)
            if isinstance(program, Refused):
                self._seen[genome] = 0.0
                refused += 1
            elif program is not None:
                found.append(program)
        self.add(found)

    def best_first(self) -> list[Drawn]:
        return [drawn for _, drawn in sorted(self._drawn, key=lambda pair: -pair[0])]

    def spread(self) -> list[Drawn]:
        """The best first, but programs that resemble none before them sooner than their scores say."""
        ranked = sorted(self._drawn, key=lambda pair: -pair[0])
        order = spread([(score, drawn.genome) for score, drawn in ranked], reward=_REWARD)
        return [ranked[place][1] for place in order]

    def shuffled(self, programs: Sequence[Drawn]) -> list[Drawn]:
        """Those programs, scored, in an order drawn at random."""
        wanted = {drawn.program_hash for drawn in programs}
        found = [drawn for _, drawn in self._drawn if drawn.program_hash in wanted]
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
