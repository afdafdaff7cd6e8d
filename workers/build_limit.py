"""How long a build may take: known from the search's own builds. Pure: no IO, no clock.

A candidate that compiles many times as long as its fellows has unrolled or vectorised itself into a heap of
instructions; it would be slow, and it keeps a core from the others.
"""

import statistics
import threading
from collections import OrderedDict, deque
from dataclasses import dataclass, field

from workers.messages import MeasurePolicy

#: Builds of a search that are remembered, and how many it takes to judge others by them alone.
_REMEMBERED, _ENOUGH = 64, 8
#: While few builds are known, the first try of one ends after this multiple of what may be slow at all.
_FIRST_RATIO = 2.0
#: Searches that are remembered.
_SEARCHES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildLimit:
    """Of one try."""

    secs: float
    #: What does not end within it is tried again, after the others that wait.
    provisional: bool


@dataclass(slots=True)
class BuildTimes:
    """Seconds of the newest whole builds, by search. Thread-safe."""

    _by_search: OrderedDict[int, deque[float]] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, search_id: int, secs: float) -> None:
        with self._lock:
            times = self._by_search.setdefault(search_id, deque(maxlen=_REMEMBERED))
            times.append(secs)
            self._by_search.move_to_end(search_id)
            while len(self._by_search) > _SEARCHES:
                self._by_search.popitem(last=False)

    def first_limit(self, search_id: int, policy: MeasurePolicy) -> BuildLimit:
        """For a candidate's first try.

        A few builds without an end would hold up all cores for the whole time limit, just when nothing is
        known. When the others have been tried, they tell whether that was long.
        """
        limit_secs = self.limit_secs(search_id, policy)
        with self._lock:
            known = len(self._by_search.get(search_id, ()))
        first_secs = limit_secs if known >= _ENOUGH else _FIRST_RATIO * policy.slow_build_secs
        return BuildLimit(secs=min(first_secs, limit_secs), provisional=first_secs < limit_secs)

    def limit_secs(self, search_id: int, policy: MeasurePolicy) -> float:
        """For the search's next candidate: the policy's time limit, less with each build that is known.

        From a few builds on it is what the policy says of slow ones.
        """
        with self._lock:
            times = list(self._by_search.get(search_id, ()))
        if not times:
            return policy.build_timeout_secs
        slow_secs = max(policy.slow_build_secs, policy.slow_build_ratio * statistics.median(times))
        return min(policy.build_timeout_secs, slow_secs * max(1.0, _ENOUGH / len(times)))
