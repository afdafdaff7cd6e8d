"""Workloads of functions that were asked about a moment ago: none is put in canonical form and hashed twice.

An apply pass asks about each function of its module, which was hashed as a whole for the one request before;
stock's pipelines ask twice. What TVM hands over then is another object around the same parameters and body.
"""

import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from tilefarm import module

_KEPT = 512
#: The canonical form drops these or sets them; only the others make another workload.
_WITHOUT_MEANING = frozenset({"global_symbol", "tirx.noalias", "op_pattern", "tirx.is_scheduled"})


@dataclass(frozen=True, slots=True)
class _Known:
    #: They are held so that no other object gets their addresses; TVM copies before it changes what is held.
    body: Any
    params: Any
    attrs: Any
    module: Any
    shash: str

    def is_of(self, func: Any) -> bool:
        same = zip(self.params, func.params, strict=True)
        if not self.body.same_as(func.body) or not all(mine.same_as(theirs) for mine, theirs in same):
            return False
        return bool(self.attrs.same_as(func.attrs)) or _meaning(self.attrs) == _meaning(func.attrs)


class RecentWorkloads:
    """Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[Hashable, _Known] = OrderedDict()

    def of(self, mod: Any) -> module.Workload:
        """As module.workload_of, with its errors."""
        return self._of_function(*module.only_function(mod))

    def all_of(self, mod: Any) -> list[module.Workload]:
        """Of the functions of a module that may have a record."""
        functions = [(name, func) for name, func in module.prim_funcs(mod) if not module.is_scheduled(func)]
        return [self._of_function(name, func) for name, func in functions]

    def _of_function(self, name: str, func: Any) -> module.Workload:
        key = _key(func)
        with self._lock:
            known = self._known.get(key)
            if known is not None:
                self._known.move_to_end(key)
        if known is None or not known.is_of(func):
            canonical = module.canonical(func)
            shash = module.structural_hash(canonical)
            known = _Known(func.body, func.params, func.attrs, canonical, shash)
            with self._lock:
                self._known[key] = known
                if len(self._known) > _KEPT:
                    self._known.popitem(last=False)
        return module.Workload(name=name, asked=func, module=known.module, shash=known.shash)


def _key(func: Any) -> Hashable:
    return (hash(func.body), *(hash(param) for param in func.params))


def _meaning(attrs: Any) -> list[tuple[str, str]]:
    found = ((str(name), value) for name, value in (attrs.items() if attrs else ()))
    return sorted((name, str(value)) for name, value in found if name not in _WITHOUT_MEANING)
