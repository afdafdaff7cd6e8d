"""What a chart of a long search is made of, kept until its rows have changed: many may look at one task.

It lives in the process; another replica makes its own. A mark tells whether the rows are still the same.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request

from services.dashboard.causes import Causes

_KEPT = 64
#: A search of 100,000 trials takes some 20 MB.
_KEPT_SEARCHES = 8
Value = TypeVar("Value")


class Remembered:
    """The newest value of each key, with the mark of the rows that it was made of; those asked for last."""

    def __init__(self, *, kept: int = _KEPT) -> None:
        self._kept = kept
        self._lock = threading.Lock()
        self._values: OrderedDict[Hashable, tuple[Hashable, Any]] = OrderedDict()
        self._makers: dict[Hashable, threading.Lock] = {}

    def get(self, key: Hashable, mark: Hashable, make: Callable[[Value | None], Value]) -> Value:
        """The value of this mark; made once, however many ask at the same time, of the one before."""
        with self._lock:
            maker = self._makers.setdefault(key, threading.Lock())
        with maker:
            with self._lock:
                known = self._values.get(key)
                if known is not None:
                    self._values.move_to_end(key)
            if known is not None and known[0] == mark:
                found: Value = known[1]
                return found
            value = make(None if known is None else known[1])
            self._keep(key, mark, value)
            return value

    def _keep(self, key: Hashable, mark: Hashable, value: object) -> None:
        with self._lock:
            self._values[key] = (mark, value)
            self._values.move_to_end(key)
            while len(self._values) > self._kept:
                gone, _ = self._values.popitem(last=False)
                self._makers.pop(gone, None)


class Kept:
    """All that the pages of one app keep: of its engine's rows."""

    def __init__(self) -> None:
        #: What is drawn, by chart.
        self.drawn = Remembered()
        #: The trials that it is drawn from, of the few searches looked at last.
        self.points = Remembered(kept=_KEPT_SEARCHES)
        self.causes = Causes()


def _kept(request: Request) -> Kept:
    state = request.app.state
    if getattr(state, "kept_for", None) is not state.engine:
        state.kept, state.kept_for = Kept(), state.engine
    found: Kept = state.kept
    return found


KeptDep = Annotated[Kept, Depends(_kept)]
