"""A compile's functions as JSON text. Where TVM might die over one, a child of the compiler does the writing.

Pairs of TVM and tvm-ffi that this release was tested with write in this process; of all others nobody knows
on which module they crash, and a crash would take the compiler along. The child is forked, because what is to
be written exists only here. It asks no service.
"""

import os
import select
import signal
import time
import warnings
from typing import Any, NoReturn

from tilefarm import module, pairs
from tilefarm.errors import ModuleError

#: A module takes a millisecond; what takes longer than this hangs.
_CHILD_SECS = 5.0
_PIPE_BYTES = 1 << 16


def raw_json(mod: Any) -> str:
    """Node JSON, source locations and all. ModuleError where TVM does not survive to write it."""
    return in_child(mod) if hasattr(os, "fork") and not pairs.is_tested() else module.to_raw_json(mod)


def in_child(mod: Any) -> str:
    """As `raw_json`, whatever TVM is installed."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # Python warns of forks beside threads: the child calls into TVM and ends, and takes no lock of ours.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        _write_and_end(mod, writing)
    os.close(writing)
    try:
        content = _read(reading)
    except ModuleError:
        os.kill(child, signal.SIGKILL)
        raise
    finally:
        os.close(reading)
        _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code != 0:
        raise ModuleError(f"TVM does not save the module: {pairs.ending(code)}")
    return content.decode()


def _write_and_end(mod: Any, writing: int) -> NoReturn:
    code = 1
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        rest = memoryview(module.to_raw_json(mod).encode())
        while rest:
            rest = rest[os.write(writing, rest) :]
        code = 0
    finally:
        os._exit(code)


def _read(reading: int) -> bytes:
    """All that the child writes; ModuleError where it hangs."""
    content = bytearray()
    deadline = time.monotonic() + _CHILD_SECS
    # A compiler may have more files open than select can name.
    ready = select.poll()
    ready.register(reading, select.POLLIN)
    while True:
        if not ready.poll(max(0.0, 1e3 * (deadline - time.monotonic()))):
            raise ModuleError(f"TVM does not save the module within {_CHILD_SECS:g} s")
        piece = os.read(reading, _PIPE_BYTES)
        if not piece:
            return bytes(content)
        content += piece
