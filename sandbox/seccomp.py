"""The wall of system calls: a process behind it starts no other process and reaches no other process.

A filter in the kernel's own small language, because libseccomp is not everywhere. What is refused fails with
EPERM, as it would for want of a right; threads go on as before. It cannot be taken down again.
"""

import ctypes
import errno
import os
import platform
import struct
from dataclasses import dataclass

_SECCOMP_SET_MODE_FILTER = 1
#: All threads of the process, those that run already included; and no slower kernel for it than before
#: (Linux up to 5.15 turned speculation off behind a filter, which kernels pay for when they are timed).
_FLAGS = (1 << 0) | (1 << 2)
_ALLOW, _FAIL, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
#: Where a filter finds what it judges: the number, the architecture, the low half of argument n.
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16
_CLONE_THREAD = 0x00010000
#: Numbers from here on are those of another calling convention (x32).
_X32 = 0x40000000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Machine:
    """What the kernel calls an architecture, and the numbers of what is refused there."""

    arch: int
    seccomp: int
    clone: int
    clone3: int
    kill: int
    tgkill: int
    prlimit: int
    refused: tuple[int, ...]


#: fork, vfork, execve, execveat; socket, socketpair, connect, bind, listen, accept, accept4; ptrace,
#: process_vm_readv and _writev, kcmp, pidfd_open, pidfd_getfd, pidfd_send_signal, tkill, rt_sigqueueinfo,
#: rt_tgsigqueueinfo; shmget, semget, msgget, mq_open (what they make stays when its maker is gone); mount,
#: umount2, pivot_root, chroot, unshare, setns, bpf, perf_event_open, userfaultfd, add_key, request_key,
#: keyctl, io_uring_setup, _enter, _register, init_module, finit_module, reboot.
_MACHINES = {
    "x86_64": _Machine(
        arch=0xC000003E,
        seccomp=317,
        clone=56,
        clone3=435,
        kill=62,
        tgkill=234,
        prlimit=302,
        refused=(
            *(57, 58, 59, 322, 41, 53, 42, 49, 50, 43, 288, 101, 310, 311, 312, 434, 438, 424, 200, 129, 297),
            *(29, 64, 68, 240),
            *(165, 166, 155, 161, 272, 308, 321, 298, 323, 248, 249, 250, 425, 426, 427, 175, 313, 169),
        ),
    ),
    "aarch64": _Machine(
        arch=0xC00000B7,
        seccomp=277,
        clone=220,
        clone3=435,
        kill=129,
        tgkill=131,
        prlimit=261,
        refused=(
            *(221, 281, 198, 199, 203, 200, 201, 202, 242, 117, 270, 271, 272, 434, 438, 424, 130, 138, 240),
            *(194, 190, 186, 180),
            *(40, 39, 41, 51, 97, 268, 280, 241, 282, 217, 218, 219, 425, 426, 427, 105, 273, 142),
        ),
    ),
}

_libc = ctypes.CDLL(None, use_errno=True)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def forbid_processes() -> None:
    """From now on this process starts none, signals and limits none but itself, opens no socket.

    It leaves no shared memory or queue behind, either. It may be said twice.

    Raises OSError where the kernel has no seccomp; no_new_privs must have been set. On machines whose system
    calls are not known here there is no such wall.
    """
    machine = _MACHINES.get(platform.machine())
    if machine is None:
        return
    code = _filter(machine, own_pid=os.getpid())
    program = _Program(len(code) // 8, code)
    if _libc.syscall(machine.seccomp, _SECCOMP_SET_MODE_FILTER, _FLAGS, ctypes.byref(program)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"seccomp: {os.strerror(number)}")


def _filter(machine: _Machine, *, own_pid: int) -> bytes:
    refuse, unknown = _FAIL | errno.EPERM, _FAIL | errno.ENOSYS
    code = [
        _step(_LOAD, _ARCH),
        _step(_EQUAL, machine.arch, yes=1),
        _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER),
        _step(_AT_LEAST, _X32, no=1),
        _step(_RETURN, refuse),
        # glibc then makes its threads with clone, whose flags a filter can read.
        _step(_EQUAL, machine.clone3, no=1),
        _step(_RETURN, unknown),
        _step(_EQUAL, machine.clone, no=4),
        _step(_LOAD, _ARGUMENTS),
        _step(_ANY_BIT, _CLONE_THREAD, no=1),
        _step(_RETURN, _ALLOW),
        _step(_RETURN, refuse),
    ]
    # A signal of glibc's `raise` and `abort` is a tgkill; what it asks of its own limits is a prlimit of 0.
    for number, pids in (
        (machine.kill, [own_pid]),
        (machine.tgkill, [own_pid]),
        (machine.prlimit, [own_pid, 0]),
    ):
        code += [_step(_EQUAL, number, no=2 * len(pids) + 2), _step(_LOAD, _ARGUMENTS)]
        for pid in pids:
            code += [_step(_EQUAL, pid, no=1), _step(_RETURN, _ALLOW)]
        code.append(_step(_RETURN, refuse))
    for number in machine.refused:
        code += [_step(_EQUAL, number, no=1), _step(_RETURN, refuse)]
    return b"".join([*code, _step(_RETURN, _ALLOW)])


def _step(operation: int, value: int, *, yes: int = 0, no: int = 0) -> bytes:
    """An instruction; `yes` and `no` are how many to jump over where a test holds, and where it does not."""
    return struct.pack("=HBBI", operation, yes, no, value)
