"""Whether a target's devices are about to run dry: then a round is worth asking for before its time. Pure.

A round that is asked for early knows less: so never while there is work enough for as long as a round takes
to be searched. A device that is alone is never hungry: the round before waits for nobody else.
"""

from collections import Counter
from collections.abc import Callable, Collection

from db.searches import Search
from db.states import JobState, TrialState
from services.tuning.dispatch import Pace, chunk_limit
from services.tuning.rounds import LAG, batch_size
from services.tuning.settings import TunerSettings
from services.tuning.snapshot import Snapshot

#: Between a round's end and its trials' start, beside the search: ticks, statements, messages.
_ON_THE_WAY_SECS = 0.5
#: Of a device's chunk, what is left of it on average and no other device can take.
_HELD = 0.5


class Hunger:
    """Of one tick: rounds that it asks for count as work at once."""

    def __init__(
        self,
        *,
        snapshot: Snapshot,
        asked: Collection[int],
        pace: Callable[[int], Pace],
        round_secs: Callable[[int], float],
        settings: TunerSettings,
    ) -> None:
        """`asked`: searches with a round under way; `round_secs`: what a search's round takes, seconds."""
        self._snapshot = snapshot
        self._pace = pace
        self._round_secs = round_secs
        self._settings = settings
        self._work = work_by_target(snapshot)
        for search_id in asked:
            search = snapshot.searches.get(search_id)
            if search is not None:
                self.count(search, batch_size(search, settings))

    def count(self, search: Search, candidates: int) -> None:
        """They were asked for in this tick."""
        self._work[search.target_id] += candidates

    def max_lag(self, search: Search) -> int:
        """How many rounds back the newest is that the next round of a search must have seen."""
        devices, work = self._snapshot.devices(search.target_id), self._work[search.target_id]
        if devices <= 1:
            # The round waits for the very device that it is for.
            return LAG
        pace = self._pace(search.target_id)
        size = chunk_limit(pace.size, work=work, devices=devices, settings=self._settings)
        eaten = (self._round_secs(search.id) + _ON_THE_WAY_SECS) / pace.trial_secs
        return self._settings.max_round_lag if work < devices * (_HELD * size + eaten) else LAG


def work_by_target(snapshot: Snapshot) -> Counter[int]:
    """By target: trials that wait here, and those that are under way for anybody."""
    work = Counter({target_id: sum(out.values()) for target_id, out in snapshot.outstanding.items()})
    for kind in snapshot.open_trials:
        if kind.state is TrialState.QUEUED and kind.job_state is JobState.RUNNING:
            work[snapshot.searches[kind.search_id].target_id] += kind.count
    return work
