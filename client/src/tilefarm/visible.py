"""Which module is MetaScheduleApplyDatabase being applied to? Its functions are worth asking for together.

A Database is asked about one function at a time and is not told of the others. The module stands in the frame
of the pass that asks. Where it cannot be seen (a pass inside a Sequential), each function is asked for alone.
"""

import sys
from types import FrameType
from typing import Any

from tilefarm import extraction, module

#: A union of databases, and wrappers, may stand between.
_MAX_FRAMES = 40
_PASS = "MetaScheduleApplyDatabase"  # noqa: S105 - a pass of the compiler


def module_being_compiled() -> Any:
    """The IRModule of the innermost apply pass, or None."""
    import tvm

    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the one way to see it, and documented by CPython
    call = tvm.transform.Pass.__call__.__code__
    for _ in range(_MAX_FRAMES):
        if frame is None:
            return None
        if frame.f_code is call:
            mod, running = frame.f_locals.get("mod"), frame.f_locals.get("self")
            name = str(getattr(getattr(running, "info", None), "name", ""))
            return mod if name == _PASS and isinstance(mod, tvm.IRModule) else None
        frame = frame.f_back
    return None


class LastCompiled:
    """What of the module that is being compiled a miss needs, remembered until it is another one."""

    def __init__(self) -> None:
        #: Its address, 0 where it cannot be seen. It is not held, so that passes may change it in place.
        self.id = 0
        self._calls: dict[str, int] = {}
        self._has_relax = False

    def look(self) -> None:
        mod = module_being_compiled()
        found = 0 if mod is None else hash(mod)
        if found == self.id:
            return
        self.id, self._calls, self._has_relax = found, {}, False
        if mod is not None:
            self._calls = extraction.calls_by_function(mod, [name for name, _ in module.prim_funcs(mod)])
            self._has_relax = any(True for _ in extraction.relax_functions(mod))

    def is_view(self, func: Any) -> bool:
        """Whether the compile makes a view of a PrimFunc later, and never runs it."""
        return self._has_relax and extraction.is_view(func)

    def calls(self, function: str) -> int:
        """How often the module that was looked at calls a function; 1 where that cannot be seen."""
        return self._calls.get(function) or 1
