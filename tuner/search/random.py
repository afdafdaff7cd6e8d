"""Random search, the honest baseline: decisions drawn anew for each candidate, nothing learnt."""

from collections.abc import Sequence
from random import Random

from tuner.search.drawing import Drawing, spaces_of
from tuner.search.known import Known
from tuner.search.picks import Picks
from tuner.search.programs import Programs
from tuner.search.replay import Replayer
from tuner.search.sampling import fill
from tuner.search.setup import SearchSetup, rand_state
from tuner.search.strategy import Result, Suggestion


class RandomSearch:
    """A SearchStrategy that draws from each design space in turn."""

    def __init__(self, setup: SearchSetup, known: Known) -> None:
        self._setup = setup
        self._known = known
        self._spaces = spaces_of(setup.design_spaces)
        self._programs = Programs(Replayer(setup.mod, setup.context), known)

    def suggest(self, count: int, *, round_: int) -> Suggestion:
        random = Random(rand_state(self._setup.seed, "round", round_))  # noqa: S311 - no secret
        picks = Picks(count=count, known=self._known)
        fill(picks, known=self._known, drawing=Drawing(self._spaces, self._programs, random))
        candidates = picks.candidates(self._setup.context)
        for candidate in candidates:
            self._known.suggest(program_hash=candidate.program_hash, trace_hash=candidate.trace_hash)
        return Suggestion(candidates=candidates, exhausted=not candidates)

    def update(self, results: Sequence[Result]) -> None:
        self._known.tell(results)
