"""Modules of workloads, read once: such a row never changes, and each chunk carries its search's module."""

from collections import OrderedDict

from sqlalchemy import Engine

from db import searches
from db.searches import Module
from db.session import reading

#: Compressed they take a few KB each.
_MOST_KEPT = 256


class Modules:
    """Of one replica; used by the loop's thread only."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._kept: OrderedDict[int, Module] = OrderedDict()

    def of(self, workload_id: int) -> Module:
        module = self._kept.pop(workload_id, None)
        if module is None:
            with reading(self._engine) as session:
                module = searches.read_module(session, workload_id)
        self._kept[workload_id] = module
        if len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)
        return module
