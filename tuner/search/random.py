"""Random search, the honest baseline: decisions drawn anew for each candidate, nothing learnt."""

from collections.abc import Sequence
from typing import Any

from tuner.search.known import Known
from tuner.search.picks import Picks
from tuner.search.sampling import fill
from tuner.search.setup import ENDLESS_TRIALS, SearchSetup
from tuner.search.strategy import Result, Suggestion


class RandomSearch:
    """A SearchStrategy over TVM's ReplayTrace."""

    def __init__(self, setup: SearchSetup, known: Known) -> None:
        self._setup = setup
        self._known = known

    def suggest(self, count: int, *, round_: int) -> Suggestion:
        context = replay_context(self._setup, round_=round_, count=count)
        picks = Picks(count=count, known=self._known)
        fill(picks, known=self._known, draw=lambda: replayed(context))
        candidates = picks.candidates(context)
        for candidate in candidates:
            self._known.suggest(program_hash=candidate.program_hash, trace_hash=candidate.trace_hash)
        return Suggestion(candidates=candidates, exhausted=not candidates)

    def update(self, results: Sequence[Result]) -> None:
        self._known.tell(results)


def replay_context(setup: SearchSetup, *, round_: int, count: int) -> Any:
    """A TuneContext whose strategy draws `count` random programs at a time."""
    from tvm.s_tir.meta_schedule.search_strategy import ReplayTrace

    context = setup.context(ReplayTrace(), round_=round_)
    context.pre_tuning(ENDLESS_TRIALS, count, list(setup.design_spaces))
    return context


def replayed(context: Any) -> list[Any]:
    """Schedules of the next draw."""
    return [candidate.sch for candidate in context.generate_measure_candidates() or ()]
