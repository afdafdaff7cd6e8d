"""Walls that a forked child raises around itself before any foreign code runs in it.

`confine` runs once, single threaded, after the preloads and before the entry function: a further wall belongs
here.
"""

import ctypes
import math
import os
import resource
import signal

from sandbox.landlock import write_only_beneath
from sandbox.limits import Limits
from sandbox.seccomp import forbid_processes

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
#: Where the child's channel stands after `confine`.
CHANNEL_FD = 3
_MAX_FD = 1 << 30

_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent(parent_pid: int) -> None:
    """Ask the kernel for SIGKILL when the parent's thread that made us ends; exit if it already did."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:
        os._exit(1)


def adopt_orphans() -> None:
    """Descendants that lose their parent become children of this process, so that it can end them."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def confine(*, limits: Limits, channel_fd: int, directory: str, parent_pid: int) -> None:
    """Own session, no privileges to gain, no inherited descriptor but the channel, limits, own directory.

    It alone may be written, and the files that the limits name, where the kernel has Landlock. And no
    further process, unless the limits leave that to the child. Raises OSError where a wall cannot be raised;
    descriptors are inherited until all are.
    """
    os.setsid()
    die_with_parent(parent_pid)
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    os.chdir(directory)
    os.environ["TMPDIR"] = directory
    _redirect(channel_fd, directory)
    _schedule(limits)
    _set_limits(limits)
    write_only_beneath(directory, files=limits.device_files)
    if not limits.may_start_processes:
        forbid_processes()
    os.closerange(CHANNEL_FD + 1, _MAX_FD)


def _redirect(channel_fd: int, directory: str) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    errors = os.open(os.path.join(directory, "stderr"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)  # noqa: PTH118 - pathlib is not worth its time in a child
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.dup2(errors, 2)
    if channel_fd != CHANNEL_FD:
        os.dup2(channel_fd, CHANNEL_FD)


def _schedule(limits: Limits) -> None:
    if limits.cpus is not None:
        os.sched_setaffinity(0, limits.cpus)
    if limits.idle_priority:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def _set_limits(limits: Limits) -> None:
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_FSIZE, limits.file_size_bytes)
    _lower(resource.RLIMIT_NOFILE, limits.open_files)
    _lower(resource.RLIMIT_AS, limits.address_space_bytes)
    if limits.cpu_secs is not None:
        cpu_secs = math.ceil(limits.cpu_secs)
        _lower(resource.RLIMIT_CPU, cpu_secs, hard=cpu_secs + 1)


def _lower(kind: int, soft: int | None, *, hard: int | None = None) -> None:
    """Set a limit, never above the hard limit that is inherited."""
    if soft is None:
        return
    _, inherited = resource.getrlimit(kind)
    cap = soft if hard is None else hard
    if inherited != resource.RLIM_INFINITY:
        cap = min(cap, inherited)
    resource.setrlimit(kind, (min(soft, cap), cap))


def _prctl(option: int, argument: int) -> None:
    if _libc.prctl(option, argument, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({option}): {os.strerror(number)}")
