"""Which module is MetaScheduleApplyDatabase being applied to? Its functions are worth asking for together.

A Database is asked about one function at a time and is not told of the others. The module stands in the frame
of the pass that asks. Where it cannot be seen (a pass inside a Sequential), each function is asked for alone.
"""

import sys
from types import FrameType
from typing import Any

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
