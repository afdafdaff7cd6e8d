"""PR_SET_PDEATHSIG: the kernel ends a child when the process that started it dies, however it dies."""

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    """Run in a new child, before exec: SIGKILL me when my parent is gone."""
    if _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        os._exit(ctypes.get_errno() or 1)
