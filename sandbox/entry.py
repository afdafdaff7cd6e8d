"""What a forked child does: confine itself, run its entry function, answer an exception, exit.

It never returns into the server's code and runs no exit handler of it.
"""

import contextlib
import fcntl
import importlib
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from typing import Never

from sandbox.channel import Channel
from sandbox.confine import CHANNEL_FD, confine
from sandbox.errors import SandboxError
from sandbox.limits import LARGE_STACK_BYTES, Limits

#: Of the text of an exception that leaves an entry function.
MAX_MESSAGE_CHARS = 4000


def run_child(
    *, entry: str, limits: Limits, channel_fd: int, status_fd: int, directory: str, parent_pid: int
) -> Never:
    """The whole life of a child after fork.

    On the status pipe it says why it could not be confined; no foreign code ever has that.
    """
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        # Out of the way of the channel's place.
        status_fd = fcntl.fcntl(status_fd, fcntl.F_DUPFD_CLOEXEC, CHANNEL_FD + 1)
        try:
            confine(limits=limits, channel_fd=channel_fd, directory=directory, parent_pid=parent_pid)
        except (OSError, ValueError) as error:
            os.write(status_fd, json.dumps({"refused": f"confine: {error}"}).encode() + b"\n")
            os._exit(code)
        channel = Channel(socket.socket(fileno=CHANNEL_FD))
        code = _run_on_large_stack(entry, channel) if limits.large_stack else _run(entry, channel)
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.flush()
        os._exit(code)


def resolve(entry: str) -> Callable[[Channel], None]:
    """The function behind a dotted name such as `tuner.intake:run`."""
    module_name, _, function_name = entry.partition(":")
    function: Callable[[Channel], None] = getattr(importlib.import_module(module_name), function_name)
    return function


def _run(entry: str, channel: Channel) -> int:
    try:
        resolve(entry)(channel)
    except EOFError:
        return 0  # the parent closed the channel: it wants no more answers
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException as error:  # noqa: BLE001 - the child-process boundary: it becomes an answer
        _answer(channel, error)
        return 1
    return 0


def _run_on_large_stack(entry: str, channel: Channel) -> int:
    codes: list[int] = []
    threading.stack_size(LARGE_STACK_BYTES)
    thread = threading.Thread(target=lambda: codes.append(_run(entry, channel)))
    thread.start()
    thread.join()
    return codes[0] if codes else 1


def _answer(channel: Channel, error: BaseException) -> None:
    text = {"type": type(error).__name__, "message": str(error)[:MAX_MESSAGE_CHARS]}
    with contextlib.suppress(OSError, SandboxError):
        channel.send({"error": text, "final": True})
