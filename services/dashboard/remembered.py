"""What a chart of a long search is made of, kept until its rows have changed: many may look at one task.

It lives in the process; another replica makes its own. A mark tells whether the rows are still the same.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

_KEPT = 64
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
